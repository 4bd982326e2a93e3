package turns

import "time"

const (
	// quantum is how much a caller may take in one turn. A shorter turn lets newcomers in sooner.
	// A usual command takes 10 µs.
	quantum = 200 * time.Microsecond
	// leastCost is what a command costs at least, so that the number of commands counts even if a
	// clock does not see them.
	leastCost = time.Microsecond
	// mostCost is what a caller is charged for one command at most. Few commands take that long. If
	// one did, the loop was more likely kept from the processor meanwhile, which is nobody's fault.
	// The class is charged with all of it.
	mostCost = 5 * time.Millisecond
	// byteCost is what a byte of the rows of a command costs: a batch that is full by its bytes
	// costs as much as one that is full by its time, 1 ms.
	byteCost = 4 * time.Nanosecond
)

// Cost is what a command has cost.
type Cost struct {
	// Time is how long the loop was busy with it.
	Time time.Duration
	// Bytes are those of the rows that it changed.
	Bytes int64
}

func (c Cost) total() time.Duration {
	return max(c.Time, leastCost) + time.Duration(max(0, c.Bytes))*byteCost
}

// Limits bound what waits, and what a batch has.
type Limits struct {
	// Caller is how many commands of one caller may wait, and All how many of all together. Nobody
	// gets more than what is left for others, so a few callers never fill the queue.
	Caller, All int
	// A batch has enough at so many commands, so many bytes of rows or so much time, whichever
	// comes first. It may have one command more than that.
	Commands int
	Bytes    int64
	Time     time.Duration
}

// tally adds up costs.
type tally struct {
	commands int
	bytes    int64
	time     time.Duration
}

func (t *tally) add(c Cost) {
	t.commands++
	t.bytes += max(0, c.Bytes)
	t.time += max(c.Time, leastCost)
}

// has reports whether it has one of so many parts of a batch.
func (t *tally) has(parts int, of Limits) bool {
	return t.commands*parts >= of.Commands || t.bytes*int64(parts) >= of.Bytes || t.time*time.Duration(parts) >= of.Time
}
