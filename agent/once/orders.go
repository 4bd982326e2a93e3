package once

import (
	"fmt"
	"maps"
	"sync"
)

// Key names the order for one grant.
type Key struct {
	AllocationID  string
	GrantRevision uint64
}

// Known is how much an agent knows of an order.
type Known uint8

// The states of an order.
const (
	New      Known = iota // the caller has to carry the order out
	UnderWay              // somebody does
	Answered
)

// Orders are the orders that an agent has taken, with their answers of type A. Make it with
// NewOrders.
type Orders[A any] struct {
	most int

	mu    sync.Mutex
	taken map[Key]*taken[A] // guarded by mu
}

type taken[A any] struct {
	answered bool
	answer   A
}

// NewOrders makes Orders that remember so many answers. An order is not forgotten while it is under
// way.
func NewOrders[A any](most int) *Orders[A] {
	return &Orders[A]{most: most, taken: make(map[Key]*taken[A])}
}

// Take takes an order, once. If it was answered, the answer is here.
func (o *Orders[A]) Take(key Key) (answer A, known Known) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch before := o.taken[key]; {
	case before == nil:
		o.taken[key] = &taken[A]{}
		return answer, New
	case before.answered:
		return before.answer, Answered
	}
	return answer, UnderWay
}

// Forget has an order count as new again: nothing of it was carried out.
func (o *Orders[A]) Forget(key Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.taken, key)
}

// Answer notes the answer to an order, for coordinators that repeat the order. If there are too
// many answers, all earlier ones are forgotten: coordinators ask for few of them.
func (o *Orders[A]) Answer(key Key, answer A) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.taken) >= o.most {
		maps.DeleteFunc(o.taken, func(_ Key, t *taken[A]) bool { return t.answered })
	}
	o.taken[key] = &taken[A]{answered: true, answer: answer}
}

// Len is the number of orders that are known.
func (o *Orders[A]) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.taken)
}

// CheckEpoch refuses an order of a leader whose epoch is over: the agent knows a later one.
func CheckEpoch(epoch, known uint64) error {
	if epoch < known {
		return fmt.Errorf("an order of epoch %d, which is over: %d is known", epoch, known)
	}
	return nil
}
