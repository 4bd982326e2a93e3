package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// After a load a refusal says whether it is too early to say no: while nothing that is known
// blocks it, and a host that the request may go to has not reported, or a cluster has not been
// read. It says so only as long as they have time for that.
func TestARefusalAfterALoadSaysWhetherItIsTooEarly(t *testing.T) {
	memory := resource.Vector{}.WithMemory
	host := func(id string) ledger.HostRecord {
		return ledger.HostRecord{ID: id, Incarnation: 1, Registered: start, Capacity: memory(8)}
	}
	snapshot := ledger.Snapshot{
		Hosts: []ledger.HostRecord{host("h1"), host("h2")}, Providers: []ledger.ProviderRecord{{ClusterName: yarnProd}},
		Quotas: []ledger.Quota{{Selector: selector(t, "user=alice"), Limit: memory(0)}},
	}
	const time3 = 15 * time.Second // three intervals
	part := resource.External{Address: resource.Address{Kind: "yarn", Cluster: "prod", Path: "root"}, Vector: memory(1)}
	elsewhere := func(c *ledger.AllocateCommand) { c.Resource.External = []resource.External{part} }
	on := func(id string) func(*ledger.AllocateCommand) {
		return func(c *ledger.AllocateCommand) { c.Wishes = &ledger.Wishes{Host: id} }
	}
	avoid := func(id string) func(*ledger.AllocateCommand) {
		return func(c *ledger.AllocateCommand) { c.Wishes = &ledger.Wishes{Avoid: []string{id}} }
	}
	for name, test := range map[string]struct {
		reported []string // hosts
		returned []string // hosts that have registered and not reported
		read     bool     // the cluster
		after    time.Duration
		user     string
		memory   int64
		change   []func(*ledger.AllocateCommand)
		early    bool
	}{
		"no host has reported":                      {nil, nil, true, time3 - 1, "bob", 1, nil, true},
		"one has, which is too small":               {[]string{"h1"}, nil, true, time3 - 1, "bob", 9, nil, true},
		"no host has, and the time is over":         {nil, nil, true, time3, "bob", 1, nil, false},
		"one has only registered":                   {[]string{"h1"}, []string{"h2"}, true, time3 - 1, "bob", 9, nil, true},
		"one has only registered, for long":         {[]string{"h1"}, []string{"h2"}, true, time3, "bob", 9, nil, false},
		"the host that is asked for has registered": {[]string{"h1"}, []string{"h2"}, true, time3 - 1, "bob", 1, []func(*ledger.AllocateCommand){on("h2")}, true},
		"one has only registered, and is avoided":   {[]string{"h1"}, []string{"h2"}, true, time3 - 1, "bob", 9, []func(*ledger.AllocateCommand){avoid("h2")}, false},
		"all have, and none is large enough":        {[]string{"h1", "h2"}, nil, true, time3 - 1, "bob", 9, nil, false},
		"a quota is short":                          {nil, nil, true, time3 - 1, "alice", 1, nil, false},
		"the host that is asked for has not":        {[]string{"h1"}, nil, true, time3 - 1, "bob", 1, []func(*ledger.AllocateCommand){on("h2")}, true},
		"the host that is asked for has":            {[]string{"h1"}, nil, true, time3 - 1, "bob", 9, []func(*ledger.AllocateCommand){on("h1")}, false},
		"the cluster was not read":                  {[]string{"h1", "h2"}, nil, false, time3 - 1, "bob", 1, []func(*ledger.AllocateCommand){elsewhere}, true},
		"the cluster was not read in time":          {[]string{"h1", "h2"}, nil, false, time3, "bob", 1, []func(*ledger.AllocateCommand){elsewhere}, false},
		"neither the cluster nor the hosts":         {nil, nil, false, time3 - 1, "bob", 1, []func(*ledger.AllocateCommand){elsewhere}, true},
		"the cluster was not, and no host has it":   {[]string{"h1", "h2"}, nil, false, time3 - 1, "bob", 9, []func(*ledger.AllocateCommand){elsewhere}, false},
		"the cluster was not, for a host with room": {[]string{"h1"}, nil, false, time3 - 1, "bob", 1, []func(*ledger.AllocateCommand){elsewhere, on("h1")}, true},
		"the cluster is too full":                   {nil, nil, true, time3 - 1, "bob", 1, []func(*ledger.AllocateCommand){elsewhere}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledger.New(ledger.Config{}, newPlainPlacer())
			must(t, l.Restore(start, snapshot))
			eight := int64(8)
			for _, id := range append(test.returned, test.reported...) {
				_, err := l.Register(start.Add(time.Second), ledger.RegisterCommand{HostID: id, Incarnation: 1, Capacity: memory(8)})
				must(t, err)
			}
			for _, id := range test.reported {
				_, err := l.Sync(start.Add(time.Second), ledger.SyncCommand{
					HostID: id, Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &eight},
				})
				must(t, err)
			}
			if test.read {
				full := ledger.QueueReport{Path: "root", Limit: memory(8), Used: memory(8)}
				must(t, l.ReportCluster(start.Add(time.Second), ledger.ClusterReport{
					ClusterName: yarnProd, Asked: start.Add(time.Second), GoodFor: time.Hour, Queues: []ledger.QueueReport{full},
				}))
			}
			_, err := ask(l, start.Add(test.after), test.user, test.memory, test.change...)
			refusal, refused := errors.AsType[*ledger.InsufficientError](err)
			if !refused || refusal.Returning != test.early {
				t.Errorf("%v; want it too early: %t", err, test.early)
			}
		})
	}
}
