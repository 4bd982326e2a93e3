package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// Nothing is the default, and one is one.
func TestTheSmallestSettingIsNoDefault(t *testing.T) {
	const hosts = 7
	fleet := func(c ledger.Config) *ledger.Ledger {
		l := ledger.New(c, newPlainPlacer())
		memory := int64(8)
		for i := range hosts {
			id := fmt.Sprint("h", i)
			_, err := l.Register(start, ledger.RegisterCommand{HostID: id, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(memory)})
			must(t, err)
			_, err = l.Sync(start, ledger.SyncCommand{HostID: id, Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &memory}})
			must(t, err)
		}
		return l
	}
	suspects := func(l *ledger.Ledger, after time.Duration) (n int) {
		l.Advance(start.Add(after))
		l.Hosts("", func(h ledger.HostInfo) bool {
			if h.State == ledger.Suspect {
				n++
			}
			return true
		})
		return n
	}
	standard := fleet(ledger.Config{})
	if got := standard.Interval(); got != 5*time.Second {
		t.Errorf("hosts report every %s; want 5s", got)
	}
	if early, late := suspects(standard, 15*time.Second-1), suspects(standard, 15*time.Second); early != 0 || late != hosts {
		t.Errorf("%d, then %d hosts are suspect; want all of them after 15s", early, late)
	}

	slow := fleet(ledger.Config{ReportsPerSecond: 1, SuspectAfter: 1})
	if got := slow.Interval(); got != hosts*time.Second {
		t.Errorf("with one report in a second hosts report every %s; want %d s", got, hosts)
	}
	if early, late := suspects(slow, hosts*time.Second-1), suspects(slow, hosts*time.Second); early != 0 || late != hosts {
		t.Errorf("%d, then %d hosts are suspect; want all of them after one interval", early, late)
	}
	on := func(c *ledger.AllocateCommand) { c.Wishes = &ledger.Wishes{Host: "h1"} }
	for name, test := range map[string]struct {
		config ledger.Config
		most   int // grants
	}{"all may have many": {ledger.Config{}, 3}, "a host has a byte": {ledger.Config{HostLiveBytes: 1}, 1}, "a caller has one": {ledger.Config{CallerLiveBytes: 1}, 0}} {
		l, grants := fleet(test.config), 0
		for range 3 {
			if _, err := ask(l, start, "alice", 1, on); err == nil {
				grants++
			}
		}
		if grants != test.most {
			t.Errorf("%s: %d grants; want %d", name, grants, test.most)
		}
	}
}
