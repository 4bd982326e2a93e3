// Package copying copies a store into another one, of any backend: live allocations, history,
// remembered request ids, hosts, rules, providers and refusals, the sequence, the last id and the
// ledger's time. The copy has an identity of its own and an epoch that is at least the source's.
//
// It needs twice the memory of a coordinator that loads the store; the history is copied in pages.
// The source must not be in use meanwhile: Run notices a change of it and then does not finish the
// copy. Open refuses an unfinished copy; another copy can overwrite it.
package copying

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/coordinator/store"
)

// Options of Run.
type Options struct {
	// Source is the source in the mark of an unfinished copy, without secrets.
	Source string
	// Now is the time of the copy.
	Now time.Time
}

// remember is how far back the remembered request ids are compared: the default time for which the
// coordinator keeps them.
const remember = 24 * time.Hour

// Report counts the copied rows, which were compared equal.
type Report struct {
	Source, Copy                                  store.Meta
	Live, Ended, Hosts, Quotas, Providers, Recent int // Recent: remembered request ids
}

// DifferenceError says that the copy differs from its source. The target stays unfinished.
type DifferenceError struct{ What string }

func (e *DifferenceError) Error() string {
	return "the copy differs from its source: " + e.What + ": want nobody to use either store meanwhile"
}

// Run copies, compares, audits, and makes the copy a normal store. After an error the target is
// unfinished, or unchanged if the error is a *store.RefusedError with NotEmpty.
func Run(ctx context.Context, from store.Store, to store.CopyTarget, options Options) (Report, error) {
	before, err := from.Meta(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("reading the source: %w", err)
	}
	if err := to.BeginCopy(ctx, options.Source); err != nil {
		return Report{}, err //nolint:wrapcheck // says it
	}
	led, err := to.Lead(ctx, before.Epoch)
	if err != nil {
		return Report{}, fmt.Errorf("writing the copy: %w", err)
	}
	c := &run{from: from, to: to, options: options, before: before, epoch: led.Epoch}
	snapshot, err := from.Load(ctx, before.Epoch, options.Now.Add(-remember), nil)
	if err != nil {
		return Report{}, fmt.Errorf("reading the source: %w", err)
	}
	if err := c.live(ctx, &snapshot); err != nil {
		return Report{}, err
	}
	if err := c.history(ctx); err != nil {
		return Report{}, err
	}
	if err := c.compare(ctx, &snapshot); err != nil {
		return Report{}, err
	}
	if err := to.EndCopy(ctx, c.epoch, before); err != nil {
		return Report{}, err //nolint:wrapcheck // says it
	}
	c.report.Source = before
	c.report.Copy, err = to.Meta(ctx)
	if copied := c.report.Copy; err == nil && (copied.Sequence != before.Sequence || copied.LastID != before.LastID || copied.Time != before.Time || copied.Outages != before.Outages) {
		err = &DifferenceError{"the sequence, the last id, the time or the outages"}
	}
	return c.report, err
}

// run is one copy.
type run struct {
	from    store.Store
	to      store.CopyTarget
	options Options
	before  store.Meta // of the source
	epoch   uint64     // of the target
	report  Report
}

// commit writes rows under the source's numbers.
func (c *run) commit(ctx context.Context, changes ledger.Changes) error {
	changes.Revision, changes.LastID, changes.Time = c.before.Sequence, c.before.LastID, c.before.Time
	if err := c.to.Commit(ctx, store.Batch{Epoch: c.epoch, Changes: changes}); err != nil {
		return fmt.Errorf("writing the copy: %w", err)
	}
	return nil
}

// live copies the rows from which a ledger is rebuilt.
func (c *run) live(ctx context.Context, s *ledger.Snapshot) error {
	c.report.Hosts, c.report.Quotas, c.report.Providers, c.report.Recent = len(s.Hosts), len(s.Quotas), len(s.Providers), len(s.Remembered)
	if err := c.commit(ctx, ledger.Changes{Hosts: s.Hosts, Quotas: s.Quotas, Providers: s.Providers, Refusals: s.Refusals}); err != nil {
		return err
	}
	for chunk := range slices.Chunk(s.Allocations, store.MaxPage) {
		c.report.Live += len(chunk)
		launches, err := c.launches(ctx, chunk)
		if err != nil {
			return err
		}
		if err := c.commit(ctx, ledger.Changes{Transitions: chunk, Launches: launches}); err != nil {
			return err
		}
	}
	return nil
}

// launches reads the rows of launches that have not begun.
func (c *run) launches(ctx context.Context, of []ledger.Allocation) (rows []ledger.LaunchRow, err error) {
	for i := range of {
		launch := of[i].Launch()
		if launch == nil || launch.Row == 0 {
			continue
		}
		spec, err := c.from.Launch(ctx, launch.Row)
		if errors.Is(err, store.ErrNotFound) {
			continue // its try fails with this reason
		}
		if err != nil {
			return nil, fmt.Errorf("reading the source: %w", err)
		}
		rows = append(rows, ledger.LaunchRow{ID: launch.Row, Spec: spec})
	}
	return rows, nil
}

// history copies ended allocations.
func (c *run) history(ctx context.Context) error {
	query := store.HistoryQuery{PageSize: store.MaxPage}
	for {
		page, next, err := c.from.History(ctx, query)
		if err != nil {
			return fmt.Errorf("reading the source: %w", err)
		}
		c.report.Ended += len(page)
		if err := c.commit(ctx, ledger.Changes{Transitions: page}); err != nil {
			return err
		}
		if query.PageToken = next; next == "" {
			return nil
		}
	}
}

// compare reads both stores again and audits a ledger of the copy.
func (c *run) compare(ctx context.Context, source *ledger.Snapshot) error {
	loaded, err := c.to.Load(ctx, c.epoch, c.options.Now.Add(-remember), nil)
	if err != nil {
		return fmt.Errorf("reading the copy: %w", err)
	}
	if what := differs(source, &loaded); what != "" {
		return &DifferenceError{what}
	}
	if err := c.compareHistory(ctx); err != nil {
		return err
	}
	after, err := c.from.Meta(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("reading the source: %w", err)
	case after != c.before:
		return &DifferenceError{fmt.Sprintf("the source was at epoch %d and sequence %d, and is at %d and %d now",
			c.before.Epoch, c.before.Sequence, after.Epoch, after.Sequence)}
	}
	return audit(c.options.Now, loaded)
}

// differs names the first kind of rows that differs; empty if none does.
func differs(a, b *ledger.Snapshot) string {
	sort(a)
	sort(b)
	switch {
	case !same(a.Allocations, b.Allocations):
		return "live allocations"
	case !same(a.Hosts, b.Hosts):
		return "hosts"
	case !same(a.Quotas, b.Quotas):
		return "quota rules"
	case !same(a.Providers, b.Providers):
		return "providers"
	case !same(a.Refusals, b.Refusals):
		return "refusals"
	case !same(a.Remembered, b.Remembered):
		return "remembered request ids"
	}
	return ""
}

func same[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b)) }

// sort sorts the lists: stores return them in any order.
func sort(s *ledger.Snapshot) {
	slices.SortFunc(s.Allocations, func(a, b ledger.Allocation) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Hosts, func(a, b ledger.HostRecord) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Quotas, func(a, b ledger.Quota) int { return cmp.Compare(a.Selector.String(), b.Selector.String()) })
	slices.SortFunc(s.Providers, func(a, b ledger.ProviderRecord) int { return cmp.Compare(a.String(), b.String()) })
	slices.SortFunc(s.Refusals, func(a, b ledger.Refusal) int { return cmp.Compare(a.ID(), b.ID()) })
	slices.SortFunc(s.Remembered, func(a, b ledger.Remembered) int { return cmp.Compare(a.ID, b.ID) })
}

// compareHistory walks through both histories side by side.
func (c *run) compareHistory(ctx context.Context) error {
	query := store.HistoryQuery{PageSize: store.MaxPage}
	for ended := 0; ; {
		a, next, err := c.from.History(ctx, query)
		if err != nil {
			return fmt.Errorf("reading the source: %w", err)
		}
		// tokens are positions in the history, the same for every store
		b, _, err := c.to.History(ctx, query)
		if err != nil {
			return fmt.Errorf("reading the copy: %w", err)
		}
		if len(a) != len(b) {
			return &DifferenceError{fmt.Sprintf("%d and %d allocations in a page of the history", len(a), len(b))}
		}
		for i := range a {
			if err := sameRow(&a[i], &b[i]); err != nil {
				return err
			}
		}
		ended += len(a)
		if query.PageToken = next; next != "" {
			continue
		}
		if ended != c.report.Ended {
			return &DifferenceError{fmt.Sprintf("%d allocations were copied from the history, and there are %d", c.report.Ended, ended)}
		}
		return nil
	}
}

// sameRow compares two allocations as rows.
func sameRow(a, b *ledger.Allocation) error {
	x, err := store.AppendAllocation(nil, a)
	if err != nil {
		return err //nolint:wrapcheck // names the row
	}
	y, err := store.AppendAllocation(nil, b)
	if err != nil {
		return err //nolint:wrapcheck // names the row
	}
	if a.ID != b.ID || a.Forget != b.Forget || !bytes.Equal(x, y) {
		return &DifferenceError{fmt.Sprintf("allocation %s in the history", a.ID)}
	}
	return nil
}

// audit builds a ledger from a snapshot and runs its audit.
func audit(now time.Time, loaded ledger.Snapshot) error {
	copied := ledger.New(ledger.Config{}, placement.New(placement.Spread))
	if err := copied.Restore(ledger.At(now), loaded); err != nil {
		return fmt.Errorf("the copy makes no ledger: %w", err)
	}
	if found := copied.Audit(); len(found) > 0 {
		return fmt.Errorf("the ledger in the copy is wrong, %d times; the first: invariant %d: %s", len(found), found[0].Invariant, found[0].Message)
	}
	return nil
}
