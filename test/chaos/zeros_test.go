package chaos

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// TestZerosAreReservedConfirmedAndGivenBack: if nothing is asked for of memory or cpu, that neither
// blocks nor hides the rest, for engines with and without a process.
func TestZerosAreReservedConfirmedAndGivenBack(t *testing.T) {
	c := startCluster(t, settings{
		agent:  "capacity: {memory: 1GiB, cpu: 2, instances: 4, gpu: 2}\n",
		quotas: "quotas:\n  - selector: {user: \"*\"}\n    limit: {memory: 512MiB, cpu: 1, instances: 2, gpu: 1}\n",
	})
	memory, cpu, one, zero := proto.Int64(64<<20), proto.Int64(100), proto.Int64(1), proto.Int64(0)
	for _, test := range []struct {
		name string
		asks *bursarv1.Resource
		want amounts // of every account
	}{
		{"no cores", &bursarv1.Resource{MemoryBytes: memory, CpuMillis: zero, Instances: one}, amounts{"memory": 64 << 20, "instances": 1}},
		{"no memory", &bursarv1.Resource{MemoryBytes: zero, CpuMillis: cpu, Instances: one}, amounts{"cpu": 100, "instances": 1}},
		{"memory alone", &bursarv1.Resource{MemoryBytes: memory, CpuMillis: zero}, amounts{"memory": 64 << 20, "instances": 1}},
		{"instances left out are one", &bursarv1.Resource{CpuMillis: cpu}, amounts{"cpu": 100, "instances": 1}},
		{
			"a countable thing alone",
			&bursarv1.Resource{MemoryBytes: zero, CpuMillis: zero, Custom: map[string]int64{"gpu": 1}},
			amounts{"gpu": 1, "instances": 1},
		},
		{"an engine and nothing else", &bursarv1.Resource{MemoryBytes: zero, CpuMillis: zero}, amounts{"instances": 1}},
	} {
		for _, process := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, process %v", test.name, process), func(t *testing.T) {
				c.throughLife(t, test.asks, test.want, process)
			})
		}
	}
	c.expectEmpty(soon)
}

// throughLife takes an allocation from reserved to released and checks every account on the way.
func (c *cluster) throughLife(t *testing.T, asks *bursarv1.Resource, want amounts, process bool) {
	t.Helper()
	r := request("alice", 0, 0)
	r.Resource = asks
	a := c.allocate(r)
	if got := amountsOf(a.GetEntitled()); !got.equal(want) {
		t.Errorf("entitled to %v, want %v", got, want)
	}
	c.expectAccounts(t, "reserved", amounts{}, want)

	confirm := &bursarv1.ConfirmRequest{Id: a.GetId(), Address: "elsewhere:1"}
	var e *engine
	if process {
		e = startEngine(t)
		confirm.Process = &bursarv1.Process{Pid: int32(e.pid())}
	}
	if _, err := c.local.Allocations().Confirm(t.Context(), confirm); err != nil {
		t.Fatal(err)
	}
	c.expectAccounts(t, "confirmed", want, amounts{})
	if process {
		e.kill()
		eventually(t, soon, "the engine is released", func() error { return c.is(a.GetId(), released) })
	} else {
		c.release(a.GetId())
	}
	c.expectAccounts(t, "released", amounts{}, amounts{})
}

// expectAccounts checks that the host, and the quota if anything lives, hold just that.
func (c *cluster) expectAccounts(t *testing.T, when string, used, reserved amounts) {
	t.Helper()
	quotas := c.quotaAccounts()
	if len(quotas) == 0 && when != "released" {
		t.Errorf("%s: no quota account", when)
	}
	for _, account := range append(quotas, c.host().GetAccount()) {
		if got := amountsOf(account.GetUsed()); !got.equal(used) {
			t.Errorf("%s: account %v uses %v, want %v", when, account.GetName(), got, used)
		}
		if got := amountsOf(account.GetReserved()); !got.equal(reserved) {
			t.Errorf("%s: account %v has reserved %v, want %v", when, account.GetName(), got, reserved)
		}
	}
}
