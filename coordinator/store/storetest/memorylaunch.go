package storetest

import (
	"bytes"
	"context"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// commitLaunches puts and removes the rows of launches.
func (s *memoryStore) commitLaunches(batch *store.Batch) {
	for i := range batch.Launches {
		s.launches[batch.Launches[i].ID] = bytes.Clone(batch.Launches[i].Spec)
	}
	for _, id := range batch.LaunchesRemoved {
		delete(s.launches, id)
	}
}

func (s *memoryStore) Launch(ctx context.Context, id ledger.ID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	spec, found := s.launches[id]
	if !found {
		return nil, store.ErrNotFound
	}
	return bytes.Clone(spec), nil
}
