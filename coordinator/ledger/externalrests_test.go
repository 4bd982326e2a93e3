package ledger

import (
	"testing"
	"time"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// An account that was held rests for a while. That is so for an account of external parts under a
// rule for any user as well, and also if other rules come into force meanwhile.
func TestAnAccountForExternalPartsRestsUnderOtherRules(t *testing.T) {
	l := New(Config{}, noPlacer{})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	prod := ClusterName{"yarn", "prod"}
	check(l.PutProvider(1, ProviderRecord{ClusterName: prod}))
	size := resource.Vector{}.WithMemory(100)
	check(l.ReportCluster(1, ClusterReport{ClusterName: prod, Asked: 1, GoodFor: time.Hour, Queues: []QueueReport{{Path: "root", Limit: size}}}))
	available := int64(100)
	_, err := l.Register(1, RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: size})
	check(err)
	_, err = l.Sync(1, SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &Sample{MemoryAvailable: &available}})
	check(err)
	selector, err := label.ParseSelector("user=*")
	check(err)
	rule := Quota{Selector: selector, Limit: size, External: resource.NewLimits(
		resource.External{Address: resource.Address{Kind: "yarn", Path: "*"}, Vector: size},
		resource.External{Address: resource.Address{Kind: "yarn", Cluster: "prod", Path: "root"}, Vector: size},
	)}
	check(l.PutQuota(1, rule))
	for _, user := range []string{"alice", "bob"} {
		_, err = l.Allocate(1, AllocateCommand{
			Actor: identity.Local(), Labels: label.Of(userKey, user), Wishes: &Wishes{Host: "h1"},
			Resource: resource.NewResource(size.WithMemory(1), resource.External{
				Address: resource.Address{Kind: "yarn", Cluster: "prod", Path: "root"}, Vector: size.WithMemory(1),
			}),
		})
		check(err)
	}
	accounts := func() map[string]*account {
		byName := make(map[string]*account)
		l.rules.scopes[0].order.Scan(func(_ string, a *account) bool {
			byName[a.name.String()] = a
			return true
		})
		return byName
	}
	const rests = "quota user=alice in yarn:*:*"
	until := l.now.Add(time.Minute)
	before := accounts()
	before[rests].rests = until
	rule.Weight = 2
	check(l.PutQuota(1, rule))
	after := accounts()
	if len(after) != 6 || after[rests] == before[rests] {
		t.Fatalf("%d accounts; want new ones", len(after))
	}
	for name, a := range after {
		want := Instant(0)
		if name == rests {
			want = until
		}
		if a.rests != want {
			t.Errorf("%s rests until %d; want %d", name, a.rests, want)
		}
	}
}
