package turns

import "time"

const (
	// quantum is how much time a caller may take in one turn. A shorter turn serves newcomers
	// sooner. A typical command takes 10 µs.
	quantum = 200 * time.Microsecond
	// leastCost is the smallest charge for a command, so that the number of commands counts even if
	// the clock is too coarse.
	leastCost = time.Microsecond
	// mostCost is the largest charge to a caller for one command. Few commands take that long. If
	// one does, the loop probably lost the processor meanwhile, which is not the caller's fault.
	// The class is charged the full cost.
	mostCost = 5 * time.Millisecond
	// byteCost is the cost of one byte of a command's rows: a batch that is full by its bytes costs
	// as much as one that is full by its time, 1 ms.
	byteCost = 4 * time.Nanosecond
)

// Cost is the measured cost of a command.
type Cost struct {
	// Time is how long the loop was busy with it.
	Time time.Duration
	// Bytes is the size of the rows that it changed.
	Bytes int64
}

func (c Cost) total() time.Duration {
	return max(c.Time, leastCost) + time.Duration(max(0, c.Bytes))*byteCost
}

// Limits bound the waiting commands, and the size of a batch.
type Limits struct {
	// Caller is the maximum number of waiting commands of one caller, All that of all callers
	// together. No caller may have more than the room that is left for others, so a few callers
	// never fill the queue.
	Caller, All int
	// A batch is full at this number of commands, bytes of rows or time, whichever comes first. It
	// may exceed them by one command.
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

// has reports whether the tally amounts to 1/parts of a full batch.
func (t *tally) has(parts int, of Limits) bool {
	return t.commands*parts >= of.Commands || t.bytes*int64(parts) >= of.Bytes || t.time*time.Duration(parts) >= of.Time
}
