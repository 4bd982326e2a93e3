package ledger_test

import (
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// What a row counts with, by the tables in coordinator/ledger/livebytes.go, added up here without
// its code.
const (
	bruteRow      = 360  // of a row that says nothing
	brutePair     = 12   // a label, without its texts
	bruteVector   = 40   // a vector of memory, cpu and instances
	bruteCustom   = 22   // another countable, without its name
	brutePart     = 16   // an external part, without its address and its vector
	bruteItem     = 3    // one of a list of texts, without the text
	bruteRoom     = 1024 // what a row may grow by from the start
	bruteLive     = 1024 // on its caller: that it lives
	bruteQueue    = 1536 // on its caller: a queue of a part, or one above it
	bruteHostWith = 160  // on its host: a queue that it counts in
)

func bytesOfVector(v resource.Vector) (n int64) {
	n = bruteVector
	for dimension := range v.All() {
		if dimension != resource.Memory && dimension != resource.CPU && dimension != resource.Instances {
			n += bruteCustom + int64(len(dimension))
		}
	}
	return n
}

func bytesOfResource(r resource.Resource) int64 {
	n := bytesOfVector(r.Vector)
	for _, p := range r.External {
		n += brutePart + int64(len(p.Kind+p.Cluster+p.Path+p.Partition)) + bytesOfVector(p.Vector)
	}
	return n
}

func bytesOfTexts(each int, list []string) int64 {
	return int64(each*len(list) + len(strings.Join(list, "")))
}

func bytesOfLabels(set label.Set) (n int64) {
	for _, l := range set {
		n += bytesOfTexts(brutePair, []string{l.Key + l.Value})
	}
	return n
}

// bytesOfRow is what a row counts with: what was asked for twice, as it is granted, too, and the
// larger of two: what the row says beyond that, and the room that it has.
func bytesOfRow(a *ledger.Allocation) int64 {
	asked := int64(len(a.RequestID+a.Caller)) + bytesOfLabels(a.Labels) + 2*bytesOfResource(a.Requested)
	if w := a.Wishes; w != nil {
		asked += int64(len(w.Host)) + bytesOfLabels(w.Required) + bytesOfLabels(w.Preferred) + bytesOfTexts(bruteItem, w.Avoid)
	}
	says := bruteRow + int64(len(a.HostID+a.HostAddress+a.Reason+a.StopReason+a.Process.Cgroup+a.Process.BootID+a.Address)) +
		bytesOfTexts(bruteItem, a.ApplicationIDs)
	if more := bytesOfResource(a.Entitled) - bytesOfResource(a.Requested); more > 0 {
		says += more
	}
	if says < bruteRoom {
		says = bruteRoom
	}
	return asked + says
}

// judgeBytes compares the bytes of callers, of hosts, and of all callers of a host's agent with
// the rows of what lives.
func (b *brute) judgeBytes() {
	type share struct{ host, caller string }
	callers, agents, onHosts, shares := make(map[string]int64), make(map[string]int64), make(map[string]int64), make(map[share]int64)
	for id, a := range b.live {
		row := bytesOfRow(a)
		total := row + bruteLive
		for _, part := range a.Entitled.External {
			total += bruteQueue * int64(len(strings.Split(part.Path, "."))+1) // one for its user
		}
		if !b.adopted[id] {
			callers[a.Caller] += total
		}
		if b.adopted[id] || a.Wishes != nil && a.Wishes.Host != "" && strings.HasSuffix(a.Caller, "@"+a.Wishes.Host) {
			agents[a.HostID] += total
		}
		if a.State.Holds() {
			weight := row + bruteHostWith*int64(len(queuesOf(a)))
			onHosts[a.HostID] += weight
			if !b.adopted[id] {
				shares[share{a.HostID, a.Caller}] += weight
			}
		}
	}
	for _, caller := range bruteCallers {
		if got := b.ledger.CallerBytes(caller); got != callers[caller] {
			b.t.Fatalf("seed %d: live allocations of %s take %d bytes; want %d", b.seed, caller, got, callers[caller])
		}
		for host := range b.hosts {
			if all, its := b.ledger.HostBytes(host, caller); its != shares[share{host, caller}] || all != onHosts[host] {
				b.t.Fatalf("seed %d: rows of %s take %d bytes, of these %d of %s; want %d and %d",
					b.seed, host, all, its, caller, onHosts[host], shares[share{host, caller}])
			}
		}
	}
	for host := range b.hosts {
		if got := b.ledger.RelayedBytes(host); got != agents[host] {
			b.t.Fatalf("seed %d: what came through the agent of %s takes %d bytes; want %d", b.seed, host, got, agents[host])
		}
	}
}

// queuesOf are the queues that an allocation counts in: those of its parts, and all above.
func queuesOf(a *ledger.Allocation) map[resource.Address]bool {
	queues := make(map[resource.Address]bool)
	for _, part := range a.Entitled.External {
		at := part.Address
		elements := strings.Split(at.Path, ".")
		for n := range elements {
			at.Path = strings.Join(elements[:n+1], ".")
			queues[at] = true
		}
	}
	return queues
}
