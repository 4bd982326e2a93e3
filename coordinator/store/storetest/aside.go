package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/label"
)

// Aside tests how a store sets unreadable rows aside. spoil replaces all payloads in a table by
// garbage.
func Aside(t *testing.T, fresh func(t *testing.T) Opener, spoil func(t *testing.T, s store.Store, table string)) { //nolint:cyclop // one story
	t.Helper()
	for _, test := range []struct {
		table, key string
		gone       []string // the tables of the rows that are removed together
	}{
		{store.AllocationTable, ledger.ID(7).String(), []string{store.AllocationTable}},
		{store.HostTable, "host-0123.example.org", []string{store.HostTable, store.AllocationTable}},
		{store.QuotaTable, rule, []string{store.QuotaTable}},
		{store.ProviderTable, "yarn:prod", []string{store.ProviderTable}},
	} {
		t.Run(test.table, func(t *testing.T) {
			s, epoch := leading(t, fresh(t))
			aside, ok := s.(store.Aside)
			if !ok {
				t.Fatalf("%T cannot set rows aside", s)
			}
			commitOne(t, s, epoch)
			spoil(t, s, test.table)
			_, err := s.Load(t.Context(), epoch, time.Time{}, nil)
			row, named := errors.AsType[*store.RowError](err)
			if !named || row.Table != test.table || row.Key != test.key || row.Err == nil {
				t.Fatalf("garbage in %s: %v: want the row named, and what is wrong with it", test.table, err)
			}

			refused := errors.New("no room")
			if _, err := aside.SetAside(t.Context(), row.Table, row.Key, func([]store.AsideRow) error { return refused }); !errors.Is(err, refused) {
				t.Errorf("rows that are not kept: %v", err)
			}
			if _, err := s.Load(t.Context(), lead(t, s, 0).Epoch, time.Time{}, nil); !errors.As(err, &row) {
				t.Errorf("what is not kept stays: %v", err)
			}
			var kept []store.AsideRow
			before := lead(t, s, 0)
			meta, err := aside.SetAside(t.Context(), row.Table, row.Key, func(rows []store.AsideRow) error { kept = rows; return nil })
			if err != nil || meta.Epoch <= before.Epoch {
				t.Fatalf("%v: epoch %d after %d", err, meta.Epoch, before.Epoch)
			}
			var tables []string
			for _, k := range kept {
				tables = append(tables, k.Table)
			}
			if strings.Join(tables, " ") != strings.Join(test.gone, " ") || !hasGarbage(kept[0]) {
				t.Errorf("kept %v: want rows of %v, with their bytes", kept, test.gone)
			}
			if err := s.Commit(t.Context(), store.Batch{Epoch: before.Epoch}); !errors.Is(err, store.ErrDeposed) {
				t.Errorf("the earlier leader goes on: %v", err)
			}
			left, err := s.Load(t.Context(), lead(t, s, 0).Epoch, time.Time{}, nil)
			if err != nil {
				t.Fatalf("what is left cannot be read: %v", err)
			}
			if n := len(left.Allocations) + len(left.Hosts) + len(left.Quotas) + len(left.Providers); n != 4-len(test.gone) {
				t.Errorf("%d rows are left of 4, %d of them were set aside", n, len(test.gone))
			}
			if _, err := aside.SetAside(t.Context(), row.Table, row.Key, func([]store.AsideRow) error { return nil }); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("again: %v, want that it is not there", err)
			}
		})
	}
	t.Run(store.RefusalTable, func(t *testing.T) { asideRefusal(t, fresh(t), spoil) })
	s, _ := leading(t, fresh(t))
	aside, _ := s.(store.Aside)
	for _, wrong := range [][2]string{{"meta", "1"}, {"allocation", "x"}, {"host; DROP TABLE host", "h"}} {
		if _, err := aside.SetAside(t.Context(), wrong[0], wrong[1], nil); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%q: %v: want it refused", wrong, err)
		}
	}
}

// asideRefusal tests that a command is accepted again after its refusal was set aside, and that an
// unreadable refusal keeps no coordinator from leading.
func asideRefusal(t *testing.T, open Opener, spoil func(t *testing.T, s store.Store, table string)) {
	t.Helper()
	s, epoch := leading(t, open)
	aside, ok := s.(store.Aside)
	if !ok {
		t.Fatalf("%T cannot set rows aside", s)
	}
	a, b := ledger.Refusal{Hash: [32]byte{1}, At: 1}, ledger.Refusal{Hash: [32]byte{2}, At: 2}
	commit(t, s, epoch, ledger.Changes{Revision: 1, Refusals: []ledger.Refusal{a, b}})
	kept := 0
	forget := func(id string) error {
		_, err := aside.SetAside(t.Context(), store.RefusalTable, id, func(rows []store.AsideRow) error { kept += len(rows); return nil })
		return err
	}
	if err := forget(a.ID()); err != nil {
		t.Fatal(err)
	}
	wantError(t, forget(a.ID()), store.ErrNotFound)
	wantError(t, s.Commit(t.Context(), store.Batch{Epoch: epoch}), store.ErrDeposed)
	left, err := s.Load(t.Context(), lead(t, s, 0).Epoch, time.Time{}, nil)
	if err != nil || len(left.Refusals) != 1 || left.Refusals[0] != b {
		t.Errorf("%+v, %v; want the other one", left.Refusals, err)
	}
	spoil(t, s, store.RefusalTable)
	left, err = s.Load(t.Context(), lead(t, s, 0).Epoch, time.Time{}, nil)
	if err != nil || len(left.Refusals) != 0 {
		t.Errorf("%+v, %v; want none, and no error", left.Refusals, err)
	}
	if err := forget(b.ID()); err != nil || kept != 2 {
		t.Errorf("%v, %d rows kept; want the garbage taken out as well", err, kept)
	}
}

// rule is the key of a row whose selector, user=a\b, has another spelling.
const rule = `user=a\\b`

// commitOne commits a row of each kind.
func commitOne(t *testing.T, s store.Store, epoch uint64) {
	t.Helper()
	selector, err := label.ParseSelector(`user=a\b`)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: ledger.Changes{
		Revision: 7, LastID: 7, Transitions: []ledger.Allocation{Typical(7, ledger.Active, 7)},
		Hosts:     []ledger.HostRecord{{ID: "host-0123.example.org"}},
		Quotas:    []ledger.Quota{{Selector: selector}},
		Providers: []ledger.ProviderRecord{{ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "prod"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// Garbage is the payload that spoil writes.
const Garbage = "\xff\xff\xffgarbage"

func hasGarbage(row store.AsideRow) bool {
	for _, column := range row.Columns {
		if payload, ok := column.Value.([]byte); ok && string(payload) == Garbage {
			return true
		}
	}
	return false
}
