package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// churn keeps a quota full: it allocates, confirms, resizes, and gives back or cancels.
func (c *checker) churn(name string) {
	for n := 0; !c.stopped(); n++ {
		bytes := int64(mebibyte)
		g, is := c.allocate(fmt.Sprintf("%s-%d", name, n), "quota", []string{"0s", "3s"}[rand.IntN(2)], "600s", bytes)
		if !is {
			pause(120)
			continue
		}
		pause(60)
		switch rand.IntN(5) {
		case 0:
			c.finish(g, bytes, "Cancel", "CANCELED")
			continue
		case 1:
			// It gives the reservation back as it is.
		default:
			if state := stateOf(c.must("AllocationService/Confirm", message{"id": g.id, "lease": "900s"})); state != "ACTIVE" {
				c.problem("a confirmed one is", "%s: %s", g.id, state)
			}
			if rand.IntN(2) == 0 {
				status, _ := c.final("AllocationService/Resize", message{"id": g.id, "entitled": message{"memoryBytes": fmt.Sprint(2 * mebibyte)}})
				if status == 200 {
					c.book(g, 0, mebibyte)
					bytes += mebibyte
				} else if status != 429 {
					c.problem("a resize of an acknowledged grant", "%s: %d", g.id, status)
				}
			}
		}
		pause(80)
		c.finish(g, bytes, "Release", "RELEASED")
	}
}

// fill keeps the hosts full.
func (c *checker) fill(name string) {
	for n := 0; !c.stopped(); n++ {
		bytes := int64(100+rand.IntN(300)) * mebibyte
		if g, is := c.allocate(fmt.Sprintf("%s-%d", name, n), "fill", "1s", "600s", bytes); is {
			pause(300)
			c.finish(g, bytes, "Release", "RELEASED")
		}
		pause(200)
	}
}

// hold keeps some for as long as the cluster is broken, renews them, and reads them everywhere:
// none is ever lost, and the revision of none goes back.
func (c *checker) hold(name string) {
	var held []grant
	revisions := make(map[string]uint64)
	for n := 0; !c.stopped(); n++ {
		if len(held) < 15 {
			if g, is := c.allocate(fmt.Sprintf("%s-%d", name, n), "hold", "5s", "600s", mebibyte); is {
				c.must("AllocationService/Confirm", message{"id": g.id, "lease": "7200s"})
				held = append(held, g)
			}
		}
		if len(held) > 0 {
			g := held[rand.IntN(len(held))]
			if rand.IntN(4) == 0 {
				c.must("AllocationService/Renew", message{"id": g.id, "ttl": "7200s"})
			}
			answer := c.must("AllocationService/Get", message{"id": g.id})
			if state := stateOf(answer); state != "ACTIVE" {
				c.problem("a held one is", "%s: %q, granted %v ago", g.id, state, time.Since(g.at).Round(time.Second))
			}
			var revision uint64
			_, _ = fmt.Sscan(text(allocationOf(answer), "revision"), &revision)
			if revision < revisions[g.id] {
				c.problem("a revision went back", "%s: %d after %d", g.id, revision, revisions[g.id])
			}
			revisions[g.id] = revision
		}
		pause(300)
	}
	for _, g := range held {
		c.finish(g, mebibyte, "Release", "RELEASED")
	}
}

// wait is one of several that wait for one place.
func (c *checker) wait(name string) {
	for n := 0; !c.stopped(); n++ {
		began := time.Now()
		g, is := c.allocate(fmt.Sprintf("%s-%d", name, n), "wait", "10s", "120s", mebibyte)
		if took := time.Since(began); took > 2*time.Minute {
			c.problem("a wait of 10 s took", "%v", took)
		}
		if is {
			pause(150)
			c.finish(g, mebibyte, "Release", "RELEASED")
		}
	}
}

// expire leaves reservations alone: they end by themselves, and as that.
func (c *checker) expire(name string) {
	for n := 0; !c.stopped(); n++ {
		g, is := c.allocate(fmt.Sprintf("%s-%d", name, n), "expire", "0s", "5s", mebibyte)
		if !is {
			pause(500)
			continue
		}
		// It may end at any time from now on.
		c.leave(g, mebibyte)
		for end := time.Now().Add(2 * time.Minute); ; pause(1000) {
			state := stateOf(c.must("AllocationService/Get", message{"id": g.id}))
			if state == "EXPIRED" {
				break
			}
			if state != "RESERVED" || time.Now().After(end) {
				c.problem("a reservation of 5 s is", "%s: %q after %v", g.id, state, time.Since(g.at).Round(time.Second))
				break
			}
		}
	}
}

// list compares lists with the books. An allocation that was acknowledged before the call, and is
// not given back, is in the list. One that ended before the call is not.
func (c *checker) list(string) {
	for !c.stopped() {
		c.mutex.Lock()
		var must []grant
		for _, g := range c.live {
			if g.user == "quota" || g.user == "hold" {
				must = append(must, g)
			}
		}
		mustNot := append([]string(nil), c.ended[max(0, len(c.ended)-400):]...)
		c.mutex.Unlock()
		listed := c.all("quota")
		for id := range c.all("hold") {
			listed[id] = true
		}
		for _, g := range must {
			c.mutex.Lock()
			_, still := c.live[g.id]
			c.mutex.Unlock()
			if still && !listed[g.id] {
				c.problem("an acknowledged grant is in no list", "%s of %s, granted %v ago", g.id, g.user, time.Since(g.at).Round(time.Millisecond))
			}
		}
		for _, id := range mustNot {
			if listed[id] {
				c.problem("an acknowledged release was undone", "%s", id)
			}
		}
		pause(250)
	}
}
