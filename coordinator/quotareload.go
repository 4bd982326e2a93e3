package coordinator

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
)

// quotaReload asks the reading goroutine to read other files.
type quotaReload struct {
	ctx   context.Context //nolint:containedctx // of the reload's caller
	paths []string
	done  chan error // holds one
}

// reload reads a list of files in place of the earlier ones, and puts all of their rules in force
// in one step. That includes unchanged rules, because another owner may have replaced one of them.
// The rules of files that are no longer in the list are removed. After an error nothing has
// changed.
func (q *quotaFiles) reload(ctx context.Context, paths []string) error {
	reload := quotaReload{ctx: ctx, paths: paths, done: make(chan error, 1)}
	select {
	case q.reloads <- reload:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-reload.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (q *quotaFiles) replace(ctx context.Context, loop *commit.Loop, paths []string) error {
	sets := make(map[string][]ledger.Quota)
	for _, f := range q.files {
		sets[f.source()] = nil
	}
	next := make([]*quotaFile, 0, len(paths))
	for _, path := range paths {
		f := &quotaFile{path: path}
		if err := f.read(); err != nil {
			return err
		}
		f.pending = false
		next = append(next, f)
		sets[f.source()] = f.quotas
	}
	if len(sets) == 0 {
		return nil
	}
	err := q.setFiles(ctx, loop, sets)
	if refused, _ := errors.AsType[*ledger.FieldError](err); refused != nil {
		return (&quotaFiles{files: next}).locateRefusal(err)
	}
	if err != nil && !errors.Is(err, core.ErrNotLeading) {
		return err
	}
	gone := q.files
	q.files = next
	q.mu.Lock()
	maps.DeleteFunc(sets, func(source string, _ []ledger.Quota) bool {
		return !slices.ContainsFunc(next, func(f *quotaFile) bool { return f.source() == source })
	})
	for _, f := range gone {
		delete(q.wrong, f.path)
		delete(q.doubts, f.path)
		if sets[f.source()] == nil {
			q.sets[f.source()] = nil // so that the next leadership forgets them too
		}
	}
	maps.Copy(q.sets, sets)
	q.mu.Unlock()
	for _, f := range gone {
		q.metrics.WrongFiles.DeleteLabelValues(f.path)
	}
	for _, f := range next {
		q.metrics.WrongFiles.WithLabelValues(f.path).Set(0)
		q.setDoubts(f)
	}
	return nil
}
