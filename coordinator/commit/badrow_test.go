package commit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/label"
)

// A readable row that the ledger rejects keeps every coordinator from leading, like an unreadable
// one. The log names the row and the remedy.
func TestARowThatTheLedgerRefusesIsNamedWithWhatToDo(t *testing.T) {
	orphan := ledger.Allocation{ID: 7, State: ledger.Active, HostID: "gone", Caller: "c", RequestID: "r", Labels: label.Of("user", "alice"), Created: 1, Reserved: 1, Confirmed: 1}
	standard := func(cluster string) ledger.ProviderRecord {
		return ledger.ProviderRecord{ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: cluster}, Default: true, Source: "api"}
	}
	for name, c := range map[string]struct {
		stored     ledger.Changes
		table, key string
		says       string
	}{
		"an allocation of no host": {
			ledger.Changes{Transitions: []ledger.Allocation{orphan}}, store.AllocationTable, orphan.ID.String(), "no such host",
		},
		"two defaults of a kind": {
			ledger.Changes{Providers: []ledger.ProviderRecord{standard("a"), standard("b")}}, store.ProviderTable, "yarn:b", "one default of a kind",
		},
	} {
		t.Run(name, func(t *testing.T) { refusesARow(t, c.stored, c.table, c.key, c.says) })
	}
}

func refusesARow(t *testing.T, stored ledger.Changes, table, key, says string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		place := storetest.NewMemory("test")
		s := place.Open()
		meta, err := s.Lead(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		stored.Revision, stored.LastID = 1, 7
		if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: stored}); err != nil {
			t.Fatal(err)
		}
		d := newLoopRig(t, place.Open(), nil)
		said := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go d.Run()
		go func() { _ = campaignAlone(d.Loop).Run(ctx, said) }()
		err = <-said
		cancel()
		d.Close()
		if row, named := errors.AsType[*ledger.RestoreError](err); !named || row.What != table || row.ID != key {
			t.Errorf("%v: want the row named", err)
		}
		for _, want := range []string{says, "no coordinator leads while this row is there", "bursar store set-aside " + table + ` "` + key + `"`} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: want %q", err, want)
			}
		}
	})
}
