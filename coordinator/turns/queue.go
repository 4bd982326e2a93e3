package turns

// Queue holds commands that wait for their turn. Make it with New. It is not safe for concurrent
// use.
type Queue[T any] struct {
	limits Limits
	groups [classCount]group[T]
	turn   Class // the class whose turn it is
	length int
	served *caller[T] // the caller of the last Next; nil: already charged

	spent tally // in this batch
	// resting are the callers with a part of this batch. above are those of them with half of it or
	// more: at most six, two for each bound.
	resting, above []*caller[T]
}

// New returns an empty queue.
func New[T any](limits Limits) *Queue[T] {
	q := &Queue[T]{limits: limits}
	for i := range q.groups {
		q.groups[i].callers = make(map[string]*caller[T])
	}
	return q
}

// Len returns the number of waiting commands.
func (q *Queue[T]) Len() int { return q.length }

// Put adds a command behind the others of its owner. It returns false, and adds nothing, if this
// owner, or all owners, already have too many waiting commands.
func (q *Queue[T]) Put(o Owner, command T) bool {
	own := 0
	if c := q.groups[o.Class].callers[o.Name]; c != nil {
		own = c.commands.len()
	}
	left := q.limits.All - q.length - 1
	if own >= q.limits.Caller || left < 0 || own > 0 && own+1 > left {
		return false
	}
	q.Force(o, command)
	return true
}

// Force is Put without a bound. It is for commands that each end an earlier one.
func (q *Queue[T]) Force(o Owner, command T) {
	g := &q.groups[o.Class]
	c := g.callers[o.Name]
	if c == nil {
		c = &caller[T]{Owner: o}
		g.callers[o.Name] = c
	}
	if !c.queued {
		c.queued, c.credit = true, quantum
		g.line.push(c)
	}
	if c.commands.len() == 0 {
		g.waiting++
	}
	c.commands.push(command)
	q.length++
}

// Next takes the command whose turn it is; ok is false if none waits. Charge must follow.
func (q *Queue[T]) Next() (command T, ok bool) {
	if q.served != nil {
		q.Charge(Cost{})
	}
	if q.length == 0 {
		q.forgive()
		return command, false
	}
	// While others wait, no caller gets more than half of a batch.
	crowded := q.others(nil) > 0
	passOver := func(c *caller[T]) bool { return crowded && q.isAbove(c) }
	g := q.nextGroup(crowded)
	c := g.next(passOver)
	command = c.commands.pop()
	if c.commands.len() == 0 {
		g.waiting--
	}
	q.length--
	q.served = c
	return command, true
}

// nextGroup returns the class whose turn it is. crowded: some waiting caller has less than half of
// the batch, and the class must have such a caller.
func (q *Queue[T]) nextGroup(crowded bool) *group[T] {
	for {
		g := &q.groups[q.turn]
		switch {
		case g.waiting == 0: // unused credit is lost
			g.credit = min(0, g.credit+q.turn.share())
		case crowded && q.others(g) == 0:
		case g.credit > 0:
			return g
		default:
			g.credit += q.turn.share()
		}
		q.turn = (q.turn + 1) % classCount
	}
}

// others counts the callers of a class that have waiting commands and less than half of the batch;
// nil: the callers of all classes.
func (q *Queue[T]) others(of *group[T]) int {
	n := 0
	for i := range q.groups {
		if g := &q.groups[i]; of == nil || of == g {
			n += g.waiting
		}
	}
	for _, c := range q.above {
		if c.commands.len() > 0 && (of == nil || of == &q.groups[c.Class]) {
			n--
		}
	}
	return n
}

func (q *Queue[T]) isAbove(c *caller[T]) bool { return c.resting && c.spent.has(2, q.limits) }

// Charge charges the cost of the command that Next returned.
func (q *Queue[T]) Charge(cost Cost) {
	c := q.served
	if c == nil {
		return
	}
	q.served = nil
	if !c.resting {
		c.resting, c.spent = true, tally{}
		q.resting = append(q.resting, c)
	}
	before := q.isAbove(c)
	c.spent.add(cost)
	q.spent.add(cost)
	if !before && q.isAbove(c) {
		q.above = append(q.above, c)
	}
	g := &q.groups[c.Class]
	c.credit -= min(cost.total(), mostCost)
	g.credit -= cost.total()
	if c.commands.len() == 0 && c.credit >= 0 { // it is still the first in line
		g.line.pop()
		g.leave(c)
	}
}

// Spend adds a cost to the batch that belongs to no caller.
func (q *Queue[T]) Spend(cost Cost) {
	q.spent.bytes += max(0, cost.Bytes)
	q.spent.time += max(0, cost.Time)
}

// Full reports whether the batch is full.
func (q *Queue[T]) Full() bool { return q.spent.has(1, q.limits) }

// NextBatch begins the next batch.
func (q *Queue[T]) NextBatch() {
	q.spent = tally{}
	for _, c := range q.resting {
		if c.resting = false; !c.queued {
			delete(q.groups[c.Class].callers, c.Name)
		}
	}
	clear(q.resting)
	q.resting = q.resting[:0]
	clear(q.above)
	q.above = q.above[:0]
}

// forgive removes the callers with debts: no command waits, so the debts delay nobody.
func (q *Queue[T]) forgive() {
	for i := range q.groups {
		g := &q.groups[i]
		g.credit = 0
		for g.line.len() > 0 {
			g.leave(g.line.pop())
		}
	}
}
