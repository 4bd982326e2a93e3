package client

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/bursar/bursar/internal/discovery"
)

const (
	// hangsFor is how long a coordinator that was found to hang is the last to be tried. It would
	// cost each try the time that it takes to find that out again.
	hangsFor = 5 * time.Second
	// returnAfter is how long calls stay away from the leader after it has failed, if no other
	// leader is named. Coordinators that stand by pass calls on to it, which costs a hop.
	returnAfter = 15 * time.Second
)

// errNoneKnown fails a call while no coordinator is known.
var errNoneKnown = errors.New("no coordinator is known yet")

// choice is which of the coordinators calls go to: the leader if it is known and answers, else any
// that does. It stays with that one until it fails or another one is named leader.
type choice struct {
	finder discovery.Finder

	mu       sync.Mutex
	current  string             // guarded by mu; empty: to be chosen
	leader   string             // guarded by mu; as the finder last named it
	count    uint64             // guarded by mu; counts failures
	failures map[string]failure // guarded by mu; of those that have failed
}

// failure is what is known of a coordinator that has failed.
type failure struct {
	count uint64    // the later, the later it is tried again
	at    time.Time // when
	hangs time.Time // until when it is believed to hang
}

func newChoice(finder discovery.Finder) *choice {
	return &choice{finder: finder, failures: make(map[string]failure)}
}

// choose returns the base URL for the next attempt.
func (c *choice) choose(now time.Time) (string, error) {
	known, _ := c.finder.Coordinators()
	if len(known) == 0 {
		return "", errNoneKnown
	}
	leader, listed := "", make(map[string]bool, len(known))
	for _, coordinator := range known {
		listed[coordinator.URL] = true
		if coordinator.Leads && leader == "" {
			leader = coordinator.URL
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case leader != c.leader:
		c.leader = leader
		if leader != "" {
			c.current = leader
			delete(c.failures, leader)
		}
	case leader != "" && c.current != leader && now.Sub(c.failures[leader].at) > returnAfter:
		c.current = leader
	}
	if !listed[c.current] {
		maps.DeleteFunc(c.failures, func(url string, _ failure) bool { return !listed[url] })
		c.current = c.nextLocked(now, known)
	}
	return c.current, nil
}

// nextLocked returns the one that failed longest ago, or never: the leader before others, and of
// others any, so that not all clients meet at the same. Those that hang come last.
func (c *choice) nextLocked(now time.Time, known []discovery.Coordinator) string {
	best, chance := known[0], 1
	for _, candidate := range known[1:] {
		switch c.compareLocked(now, candidate, best) {
		case -1:
			best, chance = candidate, 1
		case 0:
			if chance++; rand.IntN(chance) == 0 {
				best = candidate
			}
		}
	}
	return best.URL
}

// compareLocked is -1 if a is to be tried before b.
func (c *choice) compareLocked(now time.Time, a, b discovery.Coordinator) int {
	ofA, ofB := c.failures[a.URL], c.failures[b.URL]
	before := func(first bool) int {
		if first {
			return -1
		}
		return 1
	}
	switch hangsA, hangsB := now.Before(ofA.hangs), now.Before(ofB.hangs); {
	case hangsA != hangsB:
		return before(hangsB)
	case ofA.count != ofB.count:
		return before(ofA.count < ofB.count)
	case a.Leads != b.Leads:
		return before(a.Leads)
	}
	return 0
}

// failed takes note that a coordinator did not answer, or that it hangs.
func (c *choice) failed(now time.Time, url string, hangs bool) {
	if url == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failedLocked(now, url, hangs)
}

func (c *choice) failedLocked(now time.Time, url string, hangs bool) {
	c.count++
	f := failure{count: c.count, at: now, hangs: c.failures[url].hangs}
	if hangs {
		f.hangs = now.Add(hangsFor)
	}
	c.failures[url] = f
	if c.current == url {
		c.current = ""
	}
}

// failCurrent makes the next attempt go elsewhere.
func (c *choice) failCurrent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != "" {
		c.failedLocked(time.Now(), c.current, false)
	}
}

// nameOf says how coordinators are found, for messages.
func nameOf(finder discovery.Finder) string {
	if named, ok := finder.(fmt.Stringer); ok {
		return named.String()
	}
	known, _ := finder.Coordinators()
	urls := make([]string, 0, len(known))
	for _, coordinator := range known {
		urls = append(urls, coordinator.URL)
	}
	if len(urls) == 0 {
		return "the coordinators"
	}
	return strings.Join(urls, ", ")
}
