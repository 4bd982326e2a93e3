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
	// hangsFor is how long a coordinator is tried last after it was found to hang. Each try of it
	// costs the time to detect that again.
	hangsFor = 5 * time.Second
	// returnAfter is how long calls avoid a failed leader if no other leader is named. Standby
	// coordinators forward calls to it, at the cost of a hop.
	returnAfter = 15 * time.Second
)

// errNoneKnown fails a call while no coordinator is known.
var errNoneKnown = errors.New("no coordinator is known yet")

// choice chooses the coordinator for calls: the leader if it is known and answers, else any that
// answers. It keeps that coordinator until it fails or another one is named leader.
type choice struct {
	finder discovery.Finder

	mu       sync.Mutex
	current  string             // guarded by mu; empty: to be chosen
	leader   string             // guarded by mu; as last named by the finder
	count    uint64             // guarded by mu; counts failures
	failures map[string]failure // guarded by mu; of failed coordinators, by URL
}

// failure describes the last failure of a coordinator.
type failure struct {
	count uint64    // a coordinator with a larger count is tried later
	at    time.Time // time of the failure
	hangs time.Time // it is assumed to hang until then
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

// nextLocked returns the coordinator that never failed or failed longest ago: the leader before
// others, and a random one of several equal ones, so that not all clients use the same. Hanging
// coordinators come last.
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

// compareLocked returns -1 if a is tried before b.
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

// failed records that a coordinator did not answer, or that it hangs.
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

// failCurrent sends the next attempt to another coordinator.
func (c *choice) failCurrent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != "" {
		c.failedLocked(time.Now(), c.current, false)
	}
}

// nameOf describes how coordinators are found, for messages.
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
