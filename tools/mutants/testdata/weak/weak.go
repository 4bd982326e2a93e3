// Package weak has tests that do not look at everything.
package weak

import "time"

const limit = 100

type counter[T any] struct{ list []T }

func (c *counter[T]) add(one T) bool {
	if len(c.list) >= limit {
		return false
	}
	c.list = append(c.list, one)
	return true
}

// Old is tested just before and just at the limit.
func Old(age time.Duration) bool { return age >= 2*time.Minute }

// Price is tested with a few only: where the rebate begins is not.
func Price(count, each int) int {
	total := count * each
	if count > 10 && each > 1 {
		total -= max(1, total/10)
	}
	return total
}

// Forget is called, and nobody looks whether it forgets.
func Forget(list []int) []int {
	clear(list)
	return list
}

// Endless counts up to a number.
func Endless(to int) int {
	n := 0
	for n < to {
		n++
	}
	return n
}
