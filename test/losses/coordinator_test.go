package losses

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// live lists what lives, by the coordinator.
func (p *place) live() []*bursarv1.Allocation {
	p.t.Helper()
	return list(p.t, p.remote)
}

func list(t *testing.T, from *client.Client) (all []*bursarv1.Allocation) {
	t.Helper()
	for page, err := range from.ListAllocations(t.Context(), &bursarv1.AllocationServiceListRequest{PageSize: 1000}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.GetAllocations()...)
	}
	return all
}

// host reads the host, with its account.
func (p *place) host() *bursarv1.Host {
	p.t.Helper()
	response, err := p.remote.Hosts().Get(p.t.Context(), &bursarv1.HostServiceGetRequest{Id: hostID})
	if err != nil {
		p.t.Fatal(err)
	}
	return response.GetHost()
}

// read reads an allocation, live or ended.
func (p *place) read(id string) *bursarv1.Allocation {
	p.t.Helper()
	response, err := p.remote.Allocations().Get(p.t.Context(), &bursarv1.AllocationServiceGetRequest{Id: id})
	if err != nil {
		p.t.Fatal(err)
	}
	return response.GetAllocation()
}

// request asks for what an engine wants; the request id is new.
func request(labels map[string]string) *bursarv1.AllocateRequest {
	return &bursarv1.AllocateRequest{
		RequestId: client.NewRequestID(), Labels: labels, ReservationTtl: durationpb.New(patience),
		Resource: &bursarv1.Resource{MemoryBytes: new(engineMemory * mib), CpuMillis: new(int64(100))},
	}
}

// allocate reserves through the agent.
func (p *place) allocate(labels map[string]string) *bursarv1.Allocation {
	p.t.Helper()
	response, err := p.local.Allocations().Allocate(p.t.Context(), request(labels))
	if err != nil {
		p.t.Fatal(err)
	}
	return response.GetAllocation()
}

// accounts are the host's and the quotas'.
func (p *place) accounts() []*bursarv1.Account {
	p.t.Helper()
	accounts := []*bursarv1.Account{p.host().GetAccount()}
	for page, err := range p.remote.ListQuotas(p.t.Context(), &bursarv1.QuotaServiceListRequest{PageSize: 1000}) {
		if err != nil {
			p.t.Fatal(err)
		}
		accounts = append(accounts, page.GetAccounts()...)
	}
	return accounts
}

// has returns an error unless the ledger has these engines, each once, with the process that runs,
// and nothing else. That holds for the list, for every account, and for the agent.
func (p *place) has(engines []*engine) error {
	p.t.Helper()
	live := p.live()
	if len(live) != len(engines) {
		return fmt.Errorf("%d allocations, want %d: %v", len(live), len(engines), live)
	}
	var memory int64
	for _, e := range engines {
		i := slices.IndexFunc(live, func(a *bursarv1.Allocation) bool { return a.GetId() == e.id })
		switch {
		case i < 0:
			return fmt.Errorf("engine %s has no allocation", e.name)
		case live[i].GetState() != active || int(live[i].GetProcess().GetPid()) != e.pid:
			return fmt.Errorf("engine %s (%d): %v", e.name, e.pid, live[i])
		}
		memory += live[i].GetEntitled().GetMemoryBytes()
	}
	for _, account := range p.accounts() {
		used, held := account.GetUsed(), account.GetReserved()
		if used.GetMemoryBytes() != memory || held.GetMemoryBytes() != 0 || account.GetAllocations() != int64(len(engines)) {
			return fmt.Errorf("account %v: want %d bytes used by %d", account, memory, len(engines))
		}
	}
	if held := list(p.t, p.local); len(held) != len(engines) {
		return fmt.Errorf("the agent has %d allocations, want %d: %v", len(held), len(engines), held)
	}
	return nil
}

// right waits until the ledger has these engines and nothing else, for two heartbeats at most, and
// audits them.
func (p *place) right(engines []*engine) {
	p.t.Helper()
	p.inTime("the ledger is right", func() error {
		if err := undisturbed(engines); err != nil {
			p.t.Fatal(err)
		}
		return p.has(engines)
	})
	p.bursar("audit").Expect(p.t, 0, " 0 violations")
}

// ended waits until an engine is released, and returns how.
func (p *place) ended(e *engine) *bursarv1.Allocation {
	p.t.Helper()
	var end *bursarv1.Allocation
	p.inTime("engine "+e.name+" is released", func() error {
		if end = p.read(e.id); end.GetState() != released {
			return fmt.Errorf("it is %v", end)
		}
		return nil
	})
	return end
}

// endedWith wants an exit code, and words in the reason or among what the engine wrote last.
func (p *place) endedWith(e *engine, code int32, words ...string) {
	p.t.Helper()
	end := p.ended(e)
	if end.GetExitStatus() == nil || end.GetExitStatus().Code == nil || end.GetExitStatus().GetCode() != code {
		p.t.Errorf("engine %s ended with %v, want code %d", e.name, end.GetExitStatus(), code)
	}
	for _, word := range words {
		if said := end.GetReason() + "\n" + end.GetErrorOutput(); !strings.Contains(said, word) {
			p.t.Errorf("engine %s ended for %q, want %q in it", e.name, said, word)
		}
	}
}

// without is a list less one engine.
func without(engines []*engine, which *engine) []*engine {
	return slices.DeleteFunc(slices.Clone(engines), func(e *engine) bool { return e == which })
}
