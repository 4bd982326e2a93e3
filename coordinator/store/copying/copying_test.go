package copying_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/copying"
	"github.com/bursar/bursar/coordinator/store/opener"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
	"github.com/bursar/bursar/test/postgres"
)

// now is a time after the end of the allocations of storetest.Typical.
var now = time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)

const live, ended = 2500, 2300 // more than two pages each

// filled makes a store with rows of every kind.
func filled(t *testing.T, where string) store.Meta {
	t.Helper()
	s := at(t, where, opener.Options{Migrate: true})
	defer closed(t, s)
	meta, err := s.Lead(t.Context(), 41)
	if err != nil {
		t.Fatal(err)
	}
	c := ledger.Changes{
		Revision: live + ended, LastID: 1<<63 + 9, Time: 1_800_000_000_000_000_003,
		Hosts: []ledger.HostRecord{{ID: "host-0123.example.org", Capacity: resource.Vector{}.WithMemory(1 << 50).WithCPU(1 << 40), Revision: 7}},
		Quotas: []ledger.Quota{{
			Selector: selector(t, "user=alice"), Limit: resource.Vector{}.WithMemory(64 << 30), Source: "api",
		}},
		Providers: []ledger.ProviderRecord{{
			ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "prod"}, Default: true, Source: "api",
			Settings: map[string]string{"addresses": "http://rm1:8088", "user": "bursar"},
		}},
	}
	for i := range live + ended {
		state := ledger.Active
		if i >= live {
			state = ledger.Released
		}
		a := storetest.Typical(ledger.ID(i+1), state, uint64(i+1))
		a.Forget = i%7 == 0
		c.Transitions = append(c.Transitions, a)
	}
	// an id that is negative in a column, and texts that columns do not take
	odd := storetest.Typical(1<<63+9, ledger.Released, live+ended)
	odd.Caller, odd.RequestID = "a\x00b\\0", `\`
	c.Transitions[len(c.Transitions)-1] = odd
	if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: c}); err != nil {
		t.Fatal(err)
	}
	if meta, err = s.Meta(t.Context()); err != nil {
		t.Fatal(err)
	}
	return meta
}

func selector(t *testing.T, text string) label.Selector {
	t.Helper()
	s, err := label.ParseSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func at(t *testing.T, where string, options opener.Options) store.Store {
	t.Helper()
	s, err := opener.Open(t.Context(), where, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closed(t *testing.T, s store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// copyStore copies from one place to another, and lets the source be wrapped.
func copyStore(t *testing.T, from, to string, wrap func(store.Store) store.Store) (copying.Report, error) {
	t.Helper()
	source := at(t, from, opener.Options{})
	defer closed(t, source)
	target, ok := at(t, to, opener.Options{Migrate: true, IntoCopy: true}).(store.CopyTarget)
	if !ok {
		t.Fatal("no target of a copy")
	}
	defer closed(t, target)
	if wrap != nil {
		source = wrap(source)
	}
	return copying.Run(t.Context(), source, target, copying.Options{Source: "there", Now: now})
}

// places makes a new place of each kind.
func places(t *testing.T) map[string]func() string {
	t.Helper()
	server := postgres.Start(t, postgres.Options{})
	n := 0
	return map[string]func() string{
		"file": func() string { return filepath.Join(t.TempDir(), "bursar.db") },
		"database": func() string {
			n++
			dsn, err := server.CreateDatabase(t.Context(), fmt.Sprintf("d%d", n))
			if err != nil {
				t.Fatal(err)
			}
			return dsn
		},
	}
}

func TestCopy(t *testing.T) {
	kinds := places(t)
	for _, c := range [][2]string{{"file", "database"}, {"database", "file"}, {"database", "database"}, {"file", "file"}} {
		t.Run(c[0]+" to "+c[1], func(t *testing.T) {
			from, to := kinds[c[0]](), kinds[c[1]]()
			source := filled(t, from)
			report, err := copyStore(t, from, to, nil)
			if err != nil {
				t.Fatal(err)
			}
			if report.Live != live || report.Ended != ended || report.Hosts != 1 || report.Quotas != 1 || report.Recent == 0 {
				t.Errorf("%+v", report)
			}
			s := at(t, to, opener.Options{})
			defer closed(t, s)
			copied, err := s.Meta(t.Context())
			if err != nil || copied != report.Copy || copied.StoreID == source.StoreID || copied.Epoch < source.Epoch ||
				copied.Sequence != source.Sequence || copied.LastID != source.LastID || copied.Time != source.Time {
				t.Errorf("%+v, %v; the source is %+v", copied, err, source)
			}
			odd, err := s.GetByRequest(t.Context(), "a\x00b\\0", `\`)
			if err != nil || odd.ID != 1<<63+9 {
				t.Errorf("%s, %v", odd.ID, err)
			}
			meta, err := s.Lead(t.Context(), 0)
			if err != nil || meta.Epoch <= source.Epoch {
				t.Errorf("led at %d after %d, %v", meta.Epoch, source.Epoch, err)
			}
			if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: ledger.Changes{
				Revision: source.Sequence + 1, Transitions: []ledger.Allocation{storetest.Typical(1, ledger.Released, source.Sequence+1)},
			}}); err != nil {
				t.Error(err)
			}
		})
	}
}

// interrupted is a source that fails after some pages of its history.
type interrupted struct {
	store.Store

	pages  int
	before func() error
}

var errInterrupted = errors.New("interrupted")

func (s *interrupted) History(ctx context.Context, query store.HistoryQuery) ([]ledger.Allocation, string, error) {
	if s.pages--; s.pages < 0 {
		if err := s.before(); err != nil {
			return nil, "", err
		}
	}
	return s.Store.History(ctx, query)
}

func TestInterruptedCopy(t *testing.T) {
	kinds := places(t)
	for kind, place := range kinds {
		t.Run(kind, func(t *testing.T) {
			from, to := kinds["file"](), place()
			filled(t, from)
			_, err := copyStore(t, from, to, func(s store.Store) store.Store {
				return &interrupted{s, 1, func() error { return errInterrupted }}
			})
			if !errors.Is(err, errInterrupted) {
				t.Fatal(err)
			}
			wantRefused(t, to, store.Unfinished)
			report, err := copyStore(t, from, to, nil) // over what is there
			if err != nil || report.Live != live || report.Ended != ended {
				t.Fatalf("again: %+v, %v", report, err)
			}
			closed(t, at(t, to, opener.Options{}))
			_, err = copyStore(t, from, to, nil)
			wantRefusal(t, err, store.NotEmpty)
			s := at(t, to, opener.Options{}) // as it was
			defer closed(t, s)
			if meta, err := s.Meta(t.Context()); err != nil || !reflect.DeepEqual(meta, report.Copy) {
				t.Errorf("%+v, %v; want %+v", meta, err, report.Copy)
			}
		})
	}
}

func wantRefused(t *testing.T, where string, want store.Refusal) {
	t.Helper()
	s, err := opener.Open(t.Context(), where, opener.Options{Migrate: true})
	if err == nil {
		closed(t, s)
	}
	wantRefusal(t, err, want)
}

func wantRefusal(t *testing.T, err error, want store.Refusal) {
	t.Helper()
	var refused *store.RefusedError
	if !errors.As(err, &refused) || refused.Reason != want {
		t.Fatalf("got %v; want it refused as %s", err, want)
	}
	t.Log(err)
}

// A leader of the source during the copy is detected, and the copy is not finished.
func TestSourceInUse(t *testing.T) {
	kinds := places(t)
	from, to := kinds["database"](), kinds["file"]()
	filled(t, from)
	leader := at(t, from, opener.Options{})
	defer closed(t, leader)
	_, err := copyStore(t, from, to, func(s store.Store) store.Store {
		return &interrupted{s, 1, func() error {
			_, err := leader.Lead(t.Context(), 0)
			return err
		}}
	})
	if _, differs := errors.AsType[*copying.DifferenceError](err); !differs {
		t.Fatalf("got %v", err)
	}
	t.Log(err)
	wantRefused(t, to, store.Unfinished)
	from = kinds["file"]()
	filled(t, from)
	open := at(t, from, opener.Options{})
	defer closed(t, open)
	wantRefused(t, from, store.InUse)
}

// A store that waits for the target cannot open it half copied, and does not block the copy. The
// copy is not the store that it waited for: it needs a new start.
func TestCoordinatorBesideCopy(t *testing.T) {
	kinds := places(t)
	from, to := kinds["file"](), kinds["database"]()
	filled(t, from)
	standby := at(t, to, opener.Options{Migrate: true})
	defer closed(t, standby)
	_, err := copyStore(t, from, to, func(s store.Store) store.Store {
		return &interrupted{s, 1, func() error {
			_, err := standby.Lead(t.Context(), 0)
			wantRefusal(t, err, store.Unfinished)
			return nil
		}}
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = standby.Lead(t.Context(), 0)
	wantRefusal(t, err, store.OtherStore)
	restarted := at(t, to, opener.Options{})
	defer closed(t, restarted)
	if _, err := restarted.Lead(t.Context(), 0); err != nil {
		t.Error(err)
	}
}
