package ledger

import (
	"fmt"
	"math"

	"github.com/bursar/bursar/resource"
)

// # Quantities that nothing limits
//
// A request's quantities are bounded (resource.MaxQuantity), and most also by a host, a queue or a
// quota. Some are not: hosts do not limit instances, and a queue may list no limit. No sum may
// overflow under any rules. So each live allocation counts with its largest quantity, and the sum
// of these is bounded: for all allocations, so that every sum has room, and at a much lower bound
// for each caller, so that no caller can use up the bound of all.

const (
	// mostTogether bounds the largest quantities of all live allocations together. No sum over some
	// of them, or over parts of them, is larger, in any dimension.
	mostTogether = math.MaxInt64 / 4
	// callerTogether is the bound for one caller: 32 PiB of memory, or as many thousandths of cores
	// and instances as that has bytes.
	callerTogether = 1 << 55
	// relayTogether is the bound for all callers of one host's agent together: 1 PiB. Each of them
	// may have half of it.
	relayTogether = 1 << 50
)

// TooMuchError refuses a request, because the quantities of its caller's live allocations add up to
// more than any real caller has.
type TooMuchError struct {
	// Caller is a caller, all callers of a host's agent together, or all callers.
	Caller string
	// Sum is the sum of the largest quantities of its live allocations, in bytes, thousandths of a
	// core or pieces. More is the request's addition, and Most the bound.
	Sum, More, Most int64
}

func (e *TooMuchError) Error() string {
	return fmt.Sprintf("%s: the largest quantities of live allocations (waiting, reserved and active) add up to %d, and this would add %d: want at most %d: ask for less of what nothing limits, such as instances",
		e.Caller, e.Sum, e.More, e.Most)
}

// summable checks that the largest quantity of an allocation, which may come from its agent's
// report, may grow by more. The error is a *TooMuchError.
func (l *Ledger) summable(a *Allocation, more int64) error {
	if more <= max(0, relayTogether/2-l.together) { // nobody has more than all
		return nil
	}
	most := int64(callerTogether)
	if a.relayed() {
		if sum := l.relays.largestOf(a.HostID); more > relayTogether-sum {
			return &TooMuchError{Caller: "callers of host " + a.HostID, Sum: sum, More: more, Most: relayTogether}
		}
		most = relayTogether / 2
	}
	if sum := l.callers.largestOf(a.Payer()); !a.Adopted() && more > most-sum {
		return &TooMuchError{Caller: fmt.Sprintf("caller %q", a.Payer()), Sum: sum, More: more, Most: most}
	}
	if more > mostTogether-l.together {
		return &TooMuchError{Caller: "all callers", Sum: l.together, More: more, Most: mostTogether}
	}
	return nil
}

func (t usages) largestOf(name string) int64 {
	if has := t[name]; has != nil {
		return has.largest
	}
	return 0
}

// countLargest adds the growth of an entry's largest quantity to the sums.
func (l *Ledger) countLargest(e *entry, more int64) {
	l.together += more
	for _, t := range [...]*usage{e.caller, e.relay} {
		if t != nil {
			t.largest += more
		}
	}
}

// countable reports whether an engine from an agent's report can be added to every account, and to
// every other sum. The limits of hosts bound only grants.
func (l *Ledger) countable(e *entry) bool {
	if l.summable(&e.Allocation, largest(&e.Entitled)) != nil {
		return false
	}
	for c := range l.charges(e).all {
		if !c.account.canCount(c.vector) {
			return false
		}
	}
	return true
}

// largest returns the largest quantity of any dimension of the vector, plus that of each external
// part.
func largest(r *resource.Resource) int64 {
	most := largestQuantity(r.Vector)
	for i := range r.External {
		most += largestQuantity(r.External[i].Vector)
	}
	return most
}

// largestQuantity returns the largest quantity of any dimension.
func largestQuantity(v resource.Vector) int64 {
	most := max(v.Memory(), v.CPU(), v.Instances())
	for _, q := range v.Custom() {
		most = max(most, q.Value)
	}
	return most
}
