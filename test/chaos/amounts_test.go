package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// amounts are quantities by dimension. The tests do not use the arithmetic that they test.
type amounts map[string]int64

func amountsOf(r *bursarv1.Resource) amounts {
	a := amounts{}
	if r == nil {
		return a
	}
	for dimension, value := range map[string]*int64{"memory": r.MemoryBytes, "cpu": r.CpuMillis, "instances": r.Instances} {
		if value != nil {
			a[dimension] = *value
		}
	}
	maps.Copy(a, r.GetCustom())
	return a
}

func (a amounts) plus(b amounts) amounts { return a.added(b, 1) }

func (a amounts) minus(b amounts) amounts { return a.added(b, -1) }

func (a amounts) added(b amounts, sign int64) amounts {
	sum := maps.Clone(a)
	for dimension, value := range b {
		sum[dimension] += sign * value
	}
	return sum
}

func (a amounts) isZero() bool {
	for _, value := range a {
		if value != 0 {
			return false
		}
	}
	return true
}

// equal takes a dimension that is missing for zero.
func (a amounts) equal(b amounts) bool { return a.minus(b).isZero() }

func (a amounts) String() string {
	var parts []string
	for _, dimension := range slices.Sorted(maps.Keys(a)) {
		if a[dimension] != 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", dimension, a[dimension]))
		}
	}
	return "{" + strings.Join(parts, " ") + "}"
}

// book is what the clients hold by their own record: a grant is in it from its answer until the
// moment before its end is requested. The server's accounts must hold at least that much, so it
// can never exceed a limit.
type book struct {
	limits map[string]amounts // by account; never changed

	mu         sync.Mutex
	held       map[string]amounts // guarded by mu; by account
	highest    map[string]amounts // guarded by mu; the most that each held at any moment
	entries    map[string]entry   // guarded by mu; by allocation
	grants     int                // guarded by mu
	violations []string           // guarded by mu
}

// entry is one grant.
type entry struct {
	size     amounts
	accounts []string
	// until is when it ends by itself, if nobody confirms it; zero: not before somebody asks.
	until   time.Time
	entered time.Time
}

func (e entry) over(now time.Time) bool { return !e.until.IsZero() && !now.Before(e.until) }

func newBook(limits map[string]amounts) *book {
	return &book{limits: limits, held: map[string]amounts{}, highest: map[string]amounts{}, entries: map[string]entry{}}
}

// enter notes a grant, or another size of it, in all of its accounts. It first removes grants that
// have ended by themselves: what they held may be what was granted.
func (b *book) enter(id string, e entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for other, ending := range b.entries {
		if ending.over(now) {
			b.remove(other)
		}
	}
	before, known := b.entries[id]
	if !known {
		b.grants++
		if e.over(now) {
			return // its answer took longer than its life
		}
	}
	e.entered = now
	b.entries[id] = e
	for _, account := range e.accounts {
		b.change(account, e.size.minus(before.size))
	}
}

// leave takes it out.
func (b *book) leave(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(id)
}

// remove takes out what is still in. mu is held.
func (b *book) remove(id string) {
	for _, account := range b.entries[id].accounts {
		b.change(account, amounts{}.minus(b.entries[id].size))
	}
	delete(b.entries, id)
}

// change adds to what an account holds, and compares it with the limit. mu is held.
func (b *book) change(account string, by amounts) {
	if b.held[account] == nil {
		b.held[account], b.highest[account] = amounts{}, amounts{}
	}
	b.held[account] = b.held[account].plus(by)
	for dimension, value := range b.held[account] {
		b.highest[account][dimension] = max(b.highest[account][dimension], value)
		if limit, limited := b.limits[account][dimension]; limited && value > limit {
			b.violations = append(b.violations, fmt.Sprintf("account %s: %s: %d granted, limit %d:%s", account, dimension, value, limit, b.list(account)))
		}
	}
}

// list shows what an account holds, for the search for a fault. mu is held.
func (b *book) list(account string) string {
	var lines strings.Builder
	for id, e := range b.entries {
		if slices.Contains(e.accounts, account) {
			fmt.Fprintf(&lines, "\n  %s %s since %s", id, e.size, e.entered.Format(time.StampMilli))
		}
	}
	return lines.String()
}
