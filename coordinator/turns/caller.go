package turns

import "time"

// Class is a class of callers. While all classes wait, each has its share of the loop's time.
type Class int

// The classes. Of nine parts of the loop's time, Hosts and Callers get four each, and Operators
// one.
const (
	// Hosts is for the reports of hosts, and for the coordinator's own commands. A host that cannot
	// report gets no grants, and is lost after a while.
	Hosts Class = iota
	// Callers is for clients that request allocations.
	Callers
	// Operators is for the administration of the cluster. Its commands get through whatever the
	// load of Callers is, but an operator's script must not displace the work of the cluster.
	Operators
	classCount
)

// share is how much time a class may take in one turn: that of one caller's turn, or a part of it.
func (c Class) share() time.Duration {
	if c == Operators {
		return quantum / 4
	}
	return quantum
}

// Owner identifies the sender of a command.
type Owner struct {
	Class Class
	// Name distinguishes the callers of a class.
	Name string
}

// caller is one owner's part of the queue. It exists while its commands wait, while it owes time,
// and until the end of a batch that has a command of it.
type caller[T any] struct {
	Owner

	commands fifo[T]
	// credit is the rest of its turn, negative if it took more. Its turn lasts while credit is
	// positive.
	credit  time.Duration
	queued  bool  // it is in the line of its class
	resting bool  // it is in the list of callers with a part of the batch
	spent   tally // its part of this batch, if resting
}

// group is the callers of one class.
type group[T any] struct {
	callers map[string]*caller[T]
	line    fifo[*caller[T]] // the order of turns; some have no waiting commands
	waiting int              // callers with waiting commands
	credit  time.Duration    // like a caller's
}

// next returns the caller whose turn it is. At least one caller that is not passed over must have
// waiting commands. The other callers in line cost nothing in the long run: each visit pays off one
// quantum of a caller's debt.
func (g *group[T]) next(passOver func(*caller[T]) bool) *caller[T] {
	for {
		first := g.line.front()
		switch {
		case first.commands.len() > 0 && passOver(first):
		case first.credit > 0: // a caller without commands and debts is not in line
			return first
		default:
			first.credit += quantum
		}
		g.line.pop()
		if first.commands.len() == 0 && first.credit >= 0 {
			g.leave(first)
			continue
		}
		g.line.push(first)
	}
}

// leave is for a caller that was taken out of the line and has neither waiting commands nor debts.
func (g *group[T]) leave(c *caller[T]) {
	c.queued = false
	if !c.resting {
		delete(g.callers, c.Name)
	}
}
