package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// drain is a world in which small engines take whatever is free, and none lives longer than a
// minute.
type drain struct {
	*rapid.T
	ledger *ledger.Ledger
	now    ledger.Instant
	hosts  []string
	ends   map[ledger.ID]ledger.Instant
	beats  uint64
}

const longestLife = 55 * time.Second

func newDrain(t *rapid.T, hosts int, quotas ...string) *drain {
	d := &drain{T: t, ledger: ledger.New(ledger.Config{}, newPlainPlacer()), now: start, ends: make(map[ledger.ID]ledger.Instant)}
	for i := range hosts {
		id := fmt.Sprint("h", i)
		d.hosts = append(d.hosts, id)
		_, err := d.ledger.Register(d.now, ledger.RegisterCommand{HostID: id, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(10)})
		d.must(err)
	}
	for _, text := range quotas {
		selector, err := label.ParseSelector(text)
		d.must(err)
		d.must(d.ledger.PutQuota(d.now, ledger.Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(10)}))
	}
	return d
}

func (d *drain) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d *drain) beat() {
	d.beats++
	available := int64(10)
	for _, id := range d.hosts {
		_, err := d.ledger.Sync(d.now, ledger.SyncCommand{
			HostID: id, Incarnation: 1, Sequence: d.beats, Full: d.beats == 1, Sample: &ledger.Sample{MemoryAvailable: &available, Time: d.now},
		})
		d.must(err)
	}
}

func (d *drain) ask(user string, memory int64, wait time.Duration, labels label.Set, host string) (ledger.Allocation, error) {
	c := ledger.AllocateCommand{
		Actor: identity.Local(), Labels: labels, Wait: wait, Async: wait > 0, ReservationTTL: 24 * time.Hour,
		Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)),
	}
	if host != "" {
		c.Wishes = &ledger.Wishes{Host: host}
	}
	result, err := d.ledger.Allocate(d.now, c)
	if err == nil && result.Allocation.State == ledger.Reserved {
		d.ends[result.Allocation.ID] = d.now.Add(time.Duration(1+rapid.IntRange(0, int(longestLife/time.Second)-1).Draw(d.T, user)) * time.Second)
	}
	return result.Allocation, err //nolint:wrapcheck // a test
}

// second lets a second pass: engines end, and small ones take what is free.
func (d *drain) second(small func() (label.Set, string)) {
	d.now = d.now.Add(time.Second)
	if d.now.Sub(start)%(5*time.Second) == 0 {
		d.beat()
	}
	for id, at := range d.ends {
		if at <= d.now {
			_, err := d.ledger.Release(d.now, ledger.ReleaseCommand{Actor: identity.Local(), ID: id})
			d.must(err)
			delete(d.ends, id)
		}
	}
	for range 3 {
		labels, host := small()
		_, _ = d.ask("small", 1, 0, labels, host) // most are refused
	}
	goOn(d.ledger, d.now)
	for _, v := range d.ledger.Audit() {
		d.Fatalf("audit: invariant %d: %s", v.Invariant, v.Message)
	}
}

// A request that needs nearly all of a host, or of two quotas, is granted next to small ones that
// come all the time and live for less than a minute: it is starved after 30 s, and its second
// window is as long as the longest of them lives.
func TestAStarvedRequestIsGrantedWithinABound(t *testing.T) {
	const bound = 5*longestLife + 2*time.Minute
	worlds := map[string]struct {
		hosts  int
		quotas []string
		big    label.Set
		host   string
		small  func(i int) (label.Set, string)
	}{
		"on its host": {3, nil, label.Of("user", "big"), "h1", func(i int) (label.Set, string) {
			return label.Of("user", fmt.Sprint("u", i%7)), fmt.Sprint("h", i%3)
		}},
		"on any host": {3, nil, label.Of("user", "big"), "", func(i int) (label.Set, string) { return label.Of("user", fmt.Sprint("u", i%7)), "" }},
		"in its tenant and its line": {4, []string{"tenant=*", "line=*"}, label.Of("user", "big", "tenant", "t", "line", "q"), "", func(i int) (label.Set, string) {
			if i%2 == 0 {
				return label.Of("user", "u", "tenant", "t", "line", fmt.Sprint("l", i%5)), ""
			}
			return label.Of("user", "u", "tenant", fmt.Sprint("t", i%5), "line", "q"), ""
		}},
	}
	for name, w := range worlds {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				d := newDrain(t, w.hosts, w.quotas...)
				d.beat()
				i := 0
				small := func() (label.Set, string) { i++; return w.small(i) }
				for range 20 {
					d.second(small)
				}
				size := rapid.Int64Range(8, 10).Draw(t, "size")
				big, err := d.ask("big", size, 24*time.Hour, w.big, w.host)
				d.must(err)
				asked := d.now
				for big.State == ledger.Waiting {
					d.second(small)
					big, _ = d.ledger.Get(big.ID)
					if d.now.Sub(asked) > bound {
						t.Fatalf("%s waits for %s; want at most %s", big.ID, d.now.Sub(asked), bound)
					}
				}
			})
		})
	}
}
