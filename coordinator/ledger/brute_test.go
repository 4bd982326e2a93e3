package ledger_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

var bruteSeeds = flag.Int("brute.seeds", 600, "how many worlds the brute force judges")

// TestABruteForceFindsNothingWrong judges what the ledger answers and announces by the design
// alone: each sum is added up again, in numbers without bound, from the list of live allocations,
// and bytes by an arithmetic of its own. Its world has requests with several external parts, hosts
// whose labels change, repeats with other waits, vetoes, engines that the ledger does not know,
// and restarts from the store's rows. It shares nothing with the model of
// TestLedgerAgreesWithAModel, so that one mistake in how the design was read is not made twice.
// For long runs:
//
//	go test -run BruteForce -brute.seeds=20000
func TestABruteForceFindsNothingWrong(t *testing.T) {
	seeds := *bruteSeeds
	if testing.Short() {
		seeds = min(seeds, 100)
	}
	for seed := range seeds {
		b := newBrute(t, uint64(seed))
		for range 80 {
			b.step()
		}
	}
}

// brute is one world: the ledger, and what is known of it from outside.
type brute struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	ledger *ledger.Ledger
	now    ledger.Instant

	hosts   map[string]*bruteHost
	rules   []ledger.Quota
	scopes  map[string]map[string]ledger.Quota // by labels, what rulesFor has found
	cluster ledger.ClusterReport
	queues  map[string]ledger.QueueReport
	live    map[ledger.ID]*ledger.Allocation
	asked   []ledger.AllocateCommand // those with a request id, by number
	of      []ledger.ID              // and what became of them; 0: nothing that is remembered
	stored  rows

	line    map[ledger.ID][]ledger.Instant // callers of waiting requests: until when each waits
	alone   map[ledger.ID]ledger.Instant   // since when it has no caller
	adopted map[ledger.ID]bool
	asks    ledger.ID // what the step's command is about: it may be granted, or end, at once
}

type bruteHost struct {
	id                  string
	labels              label.Set
	capacity, protected resource.Vector
	available           int64
	incarnation         uint64
	sequence            uint64 // 0: the next report says all
	cordoned            bool
}

func newBrute(t *testing.T, seed uint64) *brute {
	b := &brute{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 10)), now: start, ledger: ledger.New(ledger.Config{}, newPlainPlacer()),
		hosts: make(map[string]*bruteHost), queues: make(map[string]ledger.QueueReport), live: make(map[ledger.ID]*ledger.Allocation),
		line: make(map[ledger.ID][]ledger.Instant), alone: make(map[ledger.ID]ledger.Instant), adopted: make(map[ledger.ID]bool), stored: newRows(),
	}
	must(t, b.ledger.PutProvider(b.now, ledger.ProviderRecord{ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "c1"}}))
	for i := range 1 + b.random.IntN(3) {
		h := &bruteHost{id: fmt.Sprintf("h%d", i), capacity: b.some(12), protected: resource.Vector{}.WithMemory(b.upTo(1))}
		if b.random.IntN(2) == 0 { // one that does not list it has none
			h.capacity = h.capacity.With("gpu", b.upTo(2))
		}
		b.hosts[h.id] = h
		b.register(h)
	}
	b.setRules()
	b.reportQueues()
	b.follow()
	return b
}

func (b *brute) upTo(most int64) int64 { return b.random.Int64N(most + 1) }

// some is a vector of memory and cpu, and a few instances.
func (b *brute) some(most int64) resource.Vector {
	return resource.Vector{}.WithMemory(b.upTo(most)).WithCPU(b.upTo(most)).WithInstances(1 + b.upTo(most))
}

// register announces a host with other labels, and reports everything that runs there.
func (b *brute) register(h *bruteHost) {
	h.incarnation++
	h.sequence, h.labels = 0, nil
	for _, key := range []string{"disk", "zone"} {
		if n := b.random.IntN(3); n > 0 {
			h.labels = h.labels.With(key, fmt.Sprint(n))
		}
	}
	_, err := b.ledger.Register(b.now, ledger.RegisterCommand{
		HostID: h.id, Incarnation: h.incarnation, Labels: h.labels, Capacity: h.capacity, Protected: h.protected,
	})
	must(b.t, err)
	b.sample(h)
}

// sample is a report of a host that measures its memory.
func (b *brute) sample(h *bruteHost) {
	full := h.sequence == 0
	c := b.report(h, full)
	h.available = b.upTo(16)
	c.Sample = &ledger.Sample{MemoryAvailable: new(h.available)}
	_, err := b.ledger.Sync(b.now, c)
	must(b.t, err)
}

// report is one of a host; a full one has all that has a process there.
func (b *brute) report(h *bruteHost, full bool) ledger.SyncCommand {
	h.sequence++
	c := ledger.SyncCommand{HostID: h.id, Incarnation: h.incarnation, Sequence: h.sequence, Full: full, Seen: b.ledger.Revision()}
	for _, id := range slices.Sorted(maps.Keys(b.live)) {
		if a := b.live[id]; full && a.State == ledger.Active && a.HostID == h.id && a.Process.PID != 0 {
			c.Engines = append(c.Engines, ledger.EngineReport{ID: id, Grant: new(*a)})
		}
	}
	return c
}

func (b *brute) setRules() {
	var rules []ledger.Quota
	for _, text := range []string{"*", "user=*", "user=alice", "creator=IDE", "user=*,creator=*", "user=bob,creator=*", "user=bob,creator=IDE"} {
		if b.random.IntN(2) == 0 {
			continue
		}
		selector, err := label.ParseSelector(text)
		must(b.t, err)
		q := ledger.Quota{Selector: selector, Limit: b.some(14)}
		if b.random.IntN(3) == 0 {
			q.Limit = resource.Vector{}.WithInstances(b.upTo(6))
		}
		if b.random.IntN(3) == 0 {
			q.External = b.externalLimits()
		}
		rules = append(rules, q)
	}
	b.rules, b.scopes = rules, make(map[string]map[string]ledger.Quota)
	must(b.t, b.ledger.SetQuotas(b.now, "api", slices.Clone(rules)))
}

// externalLimits are one or two, of all queues or of some.
func (b *brute) externalLimits() []resource.External {
	var list []resource.External
	paths := append([]string{"*"}, bruteQueues...)
	for _, i := range b.random.Perm(len(paths))[:1+b.random.IntN(2)] {
		at := resource.Address{Kind: "yarn", Cluster: []string{"*", "c1", "c1", "c2"}[b.random.IntN(4)], Path: paths[i]}
		list = append(list, resource.External{Address: at, Vector: b.some(10)})
	}
	return resource.NewLimits(list...)
}

func (b *brute) reportQueues() {
	r := ledger.ClusterReport{
		ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "c1"}, Asked: b.now, GoodFor: time.Hour, Settle: 1000 * time.Hour,
	}
	clear(b.queues)
	for _, path := range bruteQueues {
		q := ledger.QueueReport{Path: path, Limit: b.some(14).WithInstances(20)}
		if path != "root" {
			q.Parent = path[:max(4, len(path)-2)]
		}
		q.Used = resource.Vector{}.WithMemory(b.upTo(3)).WithCPU(b.upTo(3))
		b.queues[path] = q
		r.Queues = append(r.Queues, q)
	}
	b.cluster = r
	must(b.t, b.ledger.ReportCluster(b.now, r))
}

// bruteQueues are those of the one cluster, parents first.
var bruteQueues = []string{"root", "root.a", "root.a.x", "root.a.y", "root.b"}
