package turns

import "time"

// Class is a kind of callers. While all classes wait, each has its part of the loop's time.
type Class int

// The classes. Of nine parts of the loop's time, Hosts and Callers get four each, and Operators
// one.
const (
	// Hosts are for the reports of hosts, and for what the coordinator does by itself. Hosts that
	// cannot report get no grants, and are lost after a while.
	Hosts Class = iota
	// Callers are those who ask for allocations.
	Callers
	// Operators look after the cluster. They get through whatever Callers do, and what they do
	// with a script is not worth more than the work of the cluster.
	Operators
	classCount
)

// share is how much a class may take in one turn: as much as one of its callers, or a part of it.
func (c Class) share() time.Duration {
	if c == Operators {
		return quantum / 4
	}
	return quantum
}

// Owner is whose a command is.
type Owner struct {
	Class Class
	// Name tells callers of a class apart.
	Name string
}

// caller is what one owner has in the queue. It is there while commands of it wait, while it has
// taken more than its turn, and until the end of a batch that it has a part of.
type caller[T any] struct {
	Owner

	commands fifo[T]
	// credit is what is left of its turn, below zero if it took more. It has its turn while it is
	// above.
	credit  time.Duration
	queued  bool  // it is in the line of its class
	resting bool  // it is in the list of those that have a part of the batch
	spent   tally // in this batch, if it has a part of it
}

// group is the callers of one class.
type group[T any] struct {
	callers map[string]*caller[T]
	line    fifo[*caller[T]] // whose turn comes when; of some no commands wait
	waiting int              // callers of whom commands wait
	credit  time.Duration    // as that of a caller
}

// next returns the caller whose turn it is. Of one at least, which is not passed over, commands
// must wait. Each other one that is looked at costs nothing in the long run: it pays a quantum of
// what it took too much.
func (g *group[T]) next(passOver func(*caller[T]) bool) *caller[T] {
	for {
		first := g.line.front()
		switch {
		case first.commands.len() > 0 && passOver(first):
		case first.credit > 0: // who has nothing waiting, and owes nothing, is not in line
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

// leave is for a caller that was taken out of the line, of whom nothing waits, and who owes
// nothing.
func (g *group[T]) leave(c *caller[T]) {
	c.queued = false
	if !c.resting {
		delete(g.callers, c.Name)
	}
}
