package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/label"
)

// A row that can be read and that no ledger takes keeps every coordinator from leading, as one does that cannot be read. Who reads the log
// is told which, and what to do.
func TestARowThatTheLedgerRefusesIsNamedWithWhatToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		place := storetest.NewMemory("test")
		s := place.Open()
		meta, err := s.Lead(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		orphan := ledger.Allocation{ID: 7, State: ledger.Active, HostID: "gone", Caller: "c", RequestID: "r", Labels: label.Of("user", "alice"), Created: 1, Reserved: 1, Confirmed: 1}
		if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: ledger.Changes{Revision: 1, LastID: 7, Transitions: []ledger.Allocation{orphan}}}); err != nil {
			t.Fatal(err)
		}
		d := newDesk(t, place.Open(), nil)
		said := make(chan error, 1)
		campaign := &leadership{
			election: election.Alone(func() string { return "" }), writer: d.writer, heard: func() []uint64 { return nil }, log: slog.New(slog.DiscardHandler),
		}
		ctx, cancel := context.WithCancel(t.Context())
		go d.run()
		go func() { _ = campaign.run(ctx, said) }()
		err = <-said
		cancel()
		d.close()
		if row, named := errors.AsType[*ledger.RestoreError](err); !named || row.What != store.AllocationTable || row.ID != orphan.ID.String() {
			t.Errorf("%v: want the allocation named", err)
		}
		for _, want := range []string{"no such host", "no coordinator leads while this row is there", "bursar store set-aside allocation \"" + orphan.ID.String() + `"`} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: want %q", err, want)
			}
		}
	})
}
