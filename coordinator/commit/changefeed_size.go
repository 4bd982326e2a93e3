package commit

import (
	"unsafe"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// size estimates the memory of an event in bytes: the event, its row, and the texts and lists of
// that row. Texts that rows share count for each row.
func (e *Event) size() int {
	n := int(unsafe.Sizeof(*e)) + len(e.QuotaRemoved) + len(e.HostRemoved) + len(e.Stamp.Actor)
	switch {
	case e.Allocation != nil:
		n += allocationSize(e.Allocation)
	case e.Host != nil:
		h := e.Host
		n += int(unsafe.Sizeof(*h)) + len(h.ID) + len(h.Address) + len(h.Reason) + len(h.BootID) + len(h.Version) +
			labelsSize(h.Labels) + vectorSize(&h.Capacity) + vectorSize(&h.Protected)
	case e.Quota != nil:
		q := e.Quota
		n += int(unsafe.Sizeof(*q)) + len(q.Source) + labelsSize(q.Selector.Labels()) +
			resourceSize(&resource.Resource{Vector: q.Limit, External: q.External}) +
			resourceSize(&resource.Resource{Vector: q.Guaranteed, External: q.GuaranteedExternal})
		if r := q.Normalization; r != nil {
			n += int(unsafe.Sizeof(*r)) + vectorSize(&r.Minimum) + vectorSize(&r.Increment) + vectorSize(&r.Maximum)
		}
	}
	return n
}

func allocationSize(a *ledger.Allocation) int {
	n := int(unsafe.Sizeof(*a)) + len(a.RequestID) + len(a.Caller) + len(a.HostID) + len(a.HostAddress) + len(a.Reason) + len(a.StopReason) + len(a.StopError()) + len(a.ErrorOutput) +
		len(a.Process.Cgroup) + len(a.Process.BootID) + len(a.Address) + labelsSize(a.Labels) + resourceSize(&a.Requested) + resourceSize(&a.Entitled)
	for _, id := range a.ApplicationIDs {
		n += int(unsafe.Sizeof(id)) + len(id)
	}
	if a.LeaderEnd != nil {
		n += int(unsafe.Sizeof(*a.LeaderEnd)) + int(unsafe.Sizeof(ledger.ExitStatus{}))
	}
	n += len(a.OverUse) * int(unsafe.Sizeof(ledger.OverUse{}))
	if a.Notes != nil {
		n += int(unsafe.Sizeof(*a.Notes)) + len(a.Notes.Incidents)*int(unsafe.Sizeof(ledger.Incident{}))
	}
	return n + startSize(a.Start)
}

func startSize(s *ledger.Start) int {
	if s == nil {
		return 0
	}
	n := int(unsafe.Sizeof(*s)) + len(s.Name) + len(s.PhaseReason)
	if launch := s.Launch; launch != nil {
		n += int(unsafe.Sizeof(*launch)) + len(launch.Account) + len(launch.Program) + len(launch.LogDirectory)
		for i := range launch.Tries {
			t := &launch.Tries[i]
			n += int(unsafe.Sizeof(*t)) + len(t.HostID) + len(t.Reason) + len(t.ErrorOutput)
		}
	}
	return n
}

func labelsSize(set label.Set) (n int) {
	for i := range set {
		n += int(unsafe.Sizeof(set[i])) + len(set[i].Key) + len(set[i].Value)
	}
	return n
}

func resourceSize(r *resource.Resource) int {
	n := vectorSize(&r.Vector)
	for i := range r.External {
		x := &r.External[i]
		n += int(unsafe.Sizeof(*x)) + len(x.Kind) + len(x.Cluster) + len(x.Path) + len(x.Partition) + vectorSize(&x.Vector)
	}
	return n
}

// vectorSize returns the size of the custom part. The struct that holds the vector counts the rest.
func vectorSize(v *resource.Vector) (n int) {
	for _, q := range v.Custom() {
		n += int(unsafe.Sizeof(q)) + len(q.Name)
	}
	return n
}
