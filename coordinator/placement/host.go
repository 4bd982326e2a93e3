package placement

import (
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// amounts are the fixed dimensions of a vector.
type amounts struct{ memory, cpu, instances int64 }

func amountsOf(v *resource.Vector) amounts { return amounts{v.Memory(), v.CPU(), v.Instances()} }

func (a *amounts) room() room { return room{a.memory, a.cpu} }

// aspect is the kind of an amount.
type aspect uint8

const (
	available aspect = iota // the available part of the host
	limit                   // the size of the host
	booked                  // the part that the accounts have granted
	aspects
)

// host is the index's copy of a HostView. It fills two cache lines. In a large fleet fetching them
// is much of the cost of a change.
type host struct {
	id      string
	labels  label.Set
	amounts [aspects]amounts
	custom  *[aspects][]resource.Quantity // nil: none
	grade   uint16                        // without gradeSpent
	// members has, by the aspect of a directory, a bit for each of its views that admits the host.
	members [2]uint16
	state   state
}

// state is a set of properties of a host.
type state uint8

const (
	present     state = 1 << iota
	healthy           // not suspect, lost, cordoned or draining
	measured          // a fresh measurement without pressure
	schedulable = present | healthy | measured
)

func (h *host) present() bool { return h.state&present != 0 }

// schedulable reports whether the host may get new grants.
func (h *host) schedulable() bool { return h.state == schedulable }

// count returns the quantity of a custom countable of the host.
func (h *host) count(of aspect, name string) int64 {
	if h.custom == nil {
		return 0
	}
	return amount(h.custom[of], name)
}

// amount returns the quantity of that name, 0 if there is none.
func amount(list []resource.Quantity, name string) int64 {
	for i := range list { // lists are short
		if list[i].Name == name {
			return list[i].Value
		}
	}
	return 0
}

// update stores a view. It reports whether labels or limits changed.
func (h *host) update(v *ledger.HostView, policy Policy) (reshaped bool) {
	amounts := [aspects]amounts{available: amountsOf(&v.Available), limit: amountsOf(&v.Limit), booked: amountsOf(&v.Booked)}
	reshaped = !h.present() || amounts[limit] != h.amounts[limit] || !sameLabels(h.labels, v.Labels)
	h.amounts = amounts
	if reshaped {
		h.labels = v.Labels
	}
	if h.updateCustom(v) {
		reshaped = true
	}
	h.state = present
	if v.Health {
		h.state |= healthy
	}
	if v.Measured {
		h.state |= measured
	}
	h.grade = policy.grade(h, v.LoadMillis, v.Held)
	return reshaped
}

// book stores the available and booked amounts.
func (h *host) book(free, used *resource.Vector, policy Policy) {
	h.amounts[available], h.amounts[booked] = amountsOf(free), amountsOf(used)
	if h.custom != nil || len(free.Custom())+len(used.Custom()) > 0 {
		if h.custom == nil {
			h.custom = new([aspects][]resource.Quantity)
		}
		h.custom[available], h.custom[booked] = free.Custom(), used.Custom()
	}
	h.grade = policy.use(h) | h.grade&^gradeUse
}

// sameLabels returns true at once for the same slice, because sets are immutable.
func sameLabels(a, b label.Set) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || a.Equal(b))
}

// updateCustom stores the custom countables and reports whether a limit changed.
func (h *host) updateCustom(v *ledger.HostView) (changed bool) {
	custom := [aspects][]resource.Quantity{available: v.Available.Custom(), limit: v.Limit.Custom(), booked: v.Booked.Custom()}
	if h.custom == nil {
		if len(custom[available])+len(custom[limit])+len(custom[booked]) == 0 {
			return false
		}
		h.custom = new([aspects][]resource.Quantity)
	}
	changed = !slices.Equal(h.custom[limit], custom[limit])
	*h.custom = custom
	return changed
}

// fleet is all hosts, by slot.
type fleet struct {
	hosts []host
	slots map[string]ledger.Slot // by host id
}

// at makes room for a slot and returns its host.
func (f *fleet) at(slot ledger.Slot) *host {
	if n := int(slot) + 1; n > len(f.hosts) {
		f.hosts = append(f.hosts, make([]host, n-len(f.hosts))...)
	}
	return &f.hosts[slot]
}

// setID sets the id of a host. No other host has this id.
func (f *fleet) setID(slot ledger.Slot, h *host, id string) {
	if h.present() {
		if h.id == id {
			return
		}
		delete(f.slots, h.id)
	}
	h.id = id
	f.slots[id] = slot
}

// size returns the number of hosts.
func (f *fleet) size() int { return len(f.slots) }
