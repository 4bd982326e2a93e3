package ledger

import (
	"cmp"
	"maps"
	"slices"
)

// machine is a machine since its last boot, as agents report it. The zero value is not known.
type machine struct{ id, boot string }

// mostSameMachine bounds how many other hosts of a machine are shown with a host.
const mostSameMachine = 16

// machine is the one that the host's agent is on; zero if the agent says no machine id or boot id.
func (r *HostRecord) machine() machine {
	if r.MachineID == "" || r.BootID == "" {
		return machine{}
	}
	return machine{r.MachineID, r.BootID}
}

// updateMachine lists the host under the machine that it is on now; removed: under none.
func (l *Ledger) updateMachine(h *host, removed bool) {
	next := h.machine()
	if removed {
		next = machine{}
	}
	if next == h.listed {
		return
	}
	if before := h.listed; before != (machine{}) {
		l.machines[before] = slices.DeleteFunc(l.machines[before], func(other *host) bool { return other == h })
		if len(l.machines[before]) == 0 {
			delete(l.machines, before)
		}
		if len(l.machines[before]) < 2 {
			delete(l.shared, before)
		}
	}
	h.listed = next
	if next != (machine{}) {
		l.machines[next] = append(l.machines[next], h)
		if len(l.machines[next]) > 1 {
			l.shared[next] = struct{}{}
		}
	}
}

// SameMachine returns ids of other hosts that are on the machine of this one and report, by id, at
// most mostSameMachine. The host may have got another id: the one before is among them until it is
// suspect.
func (l *Ledger) SameMachine(hostID string) []string {
	if h := l.hosts[hostID]; h != nil {
		return l.sameMachine(h)
	}
	return nil
}

func (l *Ledger) sameMachine(h *host) (others []string) {
	for _, other := range l.machines[h.listed] {
		if other != h && other.state == Healthy && len(others) < mostSameMachine {
			others = append(others, other.ID)
		}
	}
	slices.Sort(others)
	return others
}

// SharedMachines returns the hosts that report from one machine, for each machine with several: by
// id, at most so many machines.
func (l *Ledger) SharedMachines(most int) (list [][]string) {
	order := slices.SortedFunc(maps.Keys(l.shared), func(a, b machine) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.boot, b.boot))
	})
	for _, m := range order {
		var ids []string
		for _, h := range l.machines[m] {
			if h.state == Healthy {
				ids = append(ids, h.ID)
			}
		}
		if slices.Sort(ids); len(ids) > 1 {
			list = append(list, ids)
		}
		if len(list) == most {
			break
		}
	}
	return list
}
