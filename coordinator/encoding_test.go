package coordinator

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// TestEveryRowCanBeStored holds that no command, in range or far out of it, makes a row that a
// store refuses, or that does not read back as it was: such a row would end the leadership, and do
// so again when the command is repeated.
func TestEveryRowCanBeStored(t *testing.T) { rapid.Check(t, storing) }

// FuzzEveryRowCanBeStored looks for commands that nobody has thought of.
func FuzzEveryRowCanBeStored(f *testing.F) { f.Fuzz(rapid.MakeFuzz(storing)) }

func storing(t *rapid.T) {
	c := &storer{T: t, disk: storetest.NewMemory("memory").Open(), now: ledger.At(time.Unix(1_700_000_000, 0))}
	c.core = core.NewCore(ledger.Config{}, func() ledger.Placer { return placement.New(placement.Spread) }, core.DrawLeadership)
	c.lead()
	for range 2 {
		c.register()
		c.provider()
		c.cluster()
		c.allocate()
	}
	t.Repeat(map[string]func(*rapid.T){
		"": func(t *rapid.T) { c.T = t }, "allocate": c.with((*storer).allocate), "change": c.with((*storer).change),
		"change more": c.with((*storer).change), "register": c.with((*storer).register), "sync": c.with((*storer).sync),
		"host": c.with((*storer).operate), "quota": c.with((*storer).quota), "provider": c.with((*storer).provider),
		"cluster": c.with((*storer).cluster), "pass": c.with((*storer).pass),
		"lead again": c.with(func(c *storer) {
			c.core.Drop(core.ErrNotLeading)
			c.lead()
		}),
	})
	c.core.Drop(core.ErrNotLeading)
	c.lead()
}

// storer gives a core commands and keeps what these change.
type storer struct {
	*rapid.T
	core     *core.Core
	disk     store.Store
	now      ledger.Instant
	sequence uint64
}

func (c *storer) with(do func(*storer)) func(*rapid.T) {
	return func(t *rapid.T) {
		c.T = t
		do(c)
	}
}

func (c *storer) lead() {
	meta, err := c.disk.Lead(c.Context(), 0)
	if err != nil {
		c.Fatal(err)
	}
	snapshot, err := c.disk.Load(c.Context(), meta.Epoch, time.Time{}, nil)
	if err == nil {
		err = c.core.Lead(c.now, meta, snapshot)
	}
	if err != nil {
		c.Fatalf("nobody can lead with what is stored: %v", err)
	}
}

// do gives a command, and keeps what it has changed.
func (c *storer) do(f func(l *ledger.Ledger) error) {
	if err := c.core.Do(c.now, &core.Call{Do: func(c *core.Core, _ ledger.Instant) { _ = f(c.Ledger()) }, Done: func(error) {}}); err != nil {
		c.Fatal(err)
	}
	batch := c.core.Take()
	for i := range batch.Transitions {
		a := &batch.Transitions[i]
		payload, err := store.AppendAllocation(nil, a)
		c.same(a.ID.String(), err)
		got, err := store.DecodeAllocation(a.ID, a.Forget, payload)
		want := *a
		if a.State.Live() { // which is not stored of what is live
			want.Measured, want.Peak, want.CPUTime, want.Unreclaimable = resource.Vector{}, ledger.Peak{}, 0, 0
		}
		c.equal(a.ID.String(), want, got, err)
	}
	for i := range batch.Hosts {
		payload, err := store.EncodeHost(&batch.Hosts[i])
		c.same(batch.Hosts[i].ID, err)
		got, err := store.DecodeHost(batch.Hosts[i].ID, payload)
		c.equal(batch.Hosts[i].ID, batch.Hosts[i], got, err)
	}
	for i := range batch.Quotas {
		key := batch.Quotas[i].Selector.String()
		payload, err := store.EncodeQuota(&batch.Quotas[i])
		c.same(key, err)
		got, err := store.DecodeQuota(key, payload)
		c.equal(key, batch.Quotas[i], got, err)
	}
	for i := range batch.Providers {
		key := batch.Providers[i].String()
		payload, err := store.EncodeProvider(&batch.Providers[i])
		c.same(key, err)
		got, err := store.DecodeProvider(key, payload)
		c.equal(key, batch.Providers[i], got, err)
	}
	if err := c.disk.Commit(c.Context(), batch.Batch); err != nil {
		c.Fatalf("the store refuses a batch: %v", err)
	}
	c.core.Done(c.now)
}

func (c *storer) same(key string, err error) {
	if err != nil {
		c.Fatalf("%s cannot be stored: %v", key, err)
	}
}

func (c *storer) equal(key string, want, got any, err error) {
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
		c.Fatalf("%s is not read as it was written: %v (-want +got):\n%s", key, err, diff)
	}
}

// What the values are drawn from: most are in range.

func (c *storer) text(name string) string {
	return rapid.SampledFrom([]string{"", "", "a", "ä€", "b c", "\xff", "x\x00y", "a\xc3", strings.Repeat("long", 2000)}).Draw(c.T, name)
}

func (c *storer) number(name string) int64 {
	return rapid.SampledFrom([]int64{0, 0, 0, 1, 1, 2, 7, 1 << 30, resource.MaxQuantity, resource.MaxQuantity + 1, math.MaxInt64, -1, math.MinInt64}).Draw(c.T, name)
}

func (c *storer) duration(name string) time.Duration {
	return rapid.SampledFrom([]time.Duration{0, 0, 1, time.Second, time.Hour, 1 << 50, math.MaxInt64, -1, math.MinInt64}).Draw(c.T, name)
}

func (c *storer) vector(name string) (v resource.Vector) {
	custom := rapid.SampledFrom([]string{"", "", "a", "b", "c d"}).Draw(c.T, name+" countables")
	if custom != "" {
		for i := range rapid.SampledFrom([]int{1, 8, 15, 16, 17}).Draw(c.T, name+" many") {
			v = v.With(custom+string(rune('a'+i)), 0)
		}
	}
	for _, dimension := range []string{resource.Memory, resource.CPU, resource.Instances, "aa", "gpu"} {
		if rapid.Bool().Draw(c.T, name+" has "+dimension) {
			v = v.With(dimension, c.number(name+" "+dimension))
		}
	}
	return v
}

var storedAt = []resource.Address{
	{Kind: "yarn", Path: "a"},
	{Kind: "yarn", Path: "b"},
	{Kind: "yarn", Path: "deep"},
	{Kind: "yarn", Cluster: "p", Path: "root.a"},
	{Kind: "yarn", Cluster: "p", Path: "root.b", Partition: "g"},
	{Kind: "Yarn"},
	{Kind: "yarn", Path: "root.\xff"},
	{Kind: "yarn", Path: "root..x"},
}

func (c *storer) resource(name string) resource.Resource {
	var parts []resource.External
	for _, at := range rapid.SliceOfN(rapid.SampledFrom(storedAt), 0, 2).Draw(c.T, name+" parts") {
		parts = append(parts, resource.External{Address: at, Vector: c.vector(name + " there")})
	}
	return resource.NewResource(c.vector(name), parts...)
}

func (c *storer) id() ledger.ID {
	ids := []ledger.ID{0, 1, math.MaxUint64}
	c.core.Ledger().Allocations(0, func(a *ledger.Allocation) bool {
		ids = append(ids, a.ID, a.ID, a.ID)
		return true
	})
	return rapid.SampledFrom(ids).Draw(c.T, "id")
}

func (c *storer) actor() identity.Actor {
	actor := identity.Local()
	if rapid.IntRange(0, 9).Draw(c.T, "strange") == 0 {
		actor.Name = c.text("actor")
	}
	return actor
}

func (c *storer) host() string {
	return rapid.SampledFrom([]string{"h1", "h1", "h2", "\xff", ""}).Draw(c.T, "host")
}

func (c *storer) process() ledger.Process {
	return ledger.Process{
		PID: rapid.SampledFrom([]int32{0, 1, 2, -1, math.MaxInt32}).Draw(c.T, "pid"), StartTime: uint64(c.number("start")),
		Cgroup: c.text("cgroup"), BootID: c.text("boot"),
	}
}

func (c *storer) exit() *ledger.ExitStatus {
	if rapid.Bool().Draw(c.T, "no exit") {
		return nil
	}
	return &ledger.ExitStatus{Code: new(rapid.Int32().Draw(c.T, "code")), Signal: rapid.Int32().Draw(c.T, "signal")}
}
