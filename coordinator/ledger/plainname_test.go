package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// A name next to that of a queue does not get past its limit, where queues are made by using them.
func TestAPathThatLooksLikeAnotherIsABadField(t *testing.T) {
	w := newLiveWorld(t, ledger.Config{Interval: time.Hour}, "h1")
	must(t, w.ledger.PutProvider(w.now, ledger.ProviderRecord{ClusterName: prod}))
	ask := func(path, partition string) error {
		r := resource.NewResource(resource.Vector{}.WithMemory(1))
		at := resource.Address{Kind: prod.Kind, Cluster: prod.Cluster, Path: path, Partition: partition}
		r.External = []resource.External{{Address: at, Vector: resource.Vector{}.WithMemory(gib(500).Memory())}}
		_, err := w.ledger.Allocate(w.now, ledger.AllocateCommand{
			Actor: identity.Actor{Name: "c", Anyone: true}, RequestID: path + "@" + partition, Async: true, Wait: time.Hour,
			Labels: label.Set{{Key: "user", Value: "u"}}, Resource: r,
		})
		return err
	}
	odd := []string{
		"root.small ", "root. small", "root.small .x", "root.small\t", "root.small\u200b", "root.\u202esmall", "root.*", "root.sm*ll",
		"root.small\ufe0f", "root.small\u00a0", "root.\u3164", "root.sm\u00adall", "small ", "\x1b[31mroot.small",
	}
	refused := func() {
		t.Helper()
		for _, path := range odd {
			wrong, is := errors.AsType[*ledger.FieldError](ask(path, ""))
			if !is || wrong.Field != "resource.external[0].path" || wrong.Value != path || !strings.Contains(wrong.Want, "cannot be seen, such as ") {
				t.Errorf("%q: %v", path, wrong)
			}
		}
		if wrong, is := errors.AsType[*ledger.FieldError](ask("root.small", "*")); !is || wrong.Field != "resource.external[0].partition" {
			t.Errorf("a partition: %v", wrong)
		}
	}
	refused() // whatever is known of the cluster
	report := ledger.ClusterReport{ClusterName: prod, Asked: w.now, GoodFor: time.Hour, Queues: []ledger.QueueReport{
		{Path: "root", Limit: gib(1000), CreatesChildren: true, LeavesOnly: true},
		{Path: "root.small", Parent: "root", Limit: gib(100)},
		{Path: "root.odd *", Parent: "root", Limit: gib(1000)},
	}}
	must(t, w.ledger.ReportCluster(w.now, report))
	refused()
	wrong, _ := errors.AsType[*ledger.FieldError](ask("root. sm\u200ball*", ""))
	if wrong == nil || !strings.HasSuffix(wrong.Error(), `, such as "root.small"`) || strings.Contains(wrong.Error(), "\u200b") {
		t.Errorf("%v", wrong)
	}
	for _, path := range []string{"root.my own", "root.für_alice-1@x", "root.odd *"} {
		if err := ask(path, ""); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
}
