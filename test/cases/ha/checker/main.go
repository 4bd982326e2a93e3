// Command checker is a client of several coordinators with books of its own: it allocates,
// confirms, resizes, renews, reads and releases while somebody breaks the cluster, and compares
// each answer with all that it was told before. It knows nothing of Bursar's code: it speaks
// Connect with JSON.
//
// It runs until SIGTERM, then gives everything back, and ends with 1 if it found a problem. Its
// standard output has a line for each problem, and the counts at the end. The file -grants has the
// time of each grant, in milliseconds, one a line.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	addresses := flag.String("addresses", "", "base URLs of the coordinators, with commas")
	grants := flag.String("grants", "grants", "the file for the times of grants")
	hostMemory := flag.Int64("host-memory", 1<<30, "bytes that each host gives away")
	flag.Parse()
	file, err := os.Create(*grants)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checker:", err)
		os.Exit(2)
	}
	c := newChecker(strings.Split(*addresses, ","), file, *hostMemory)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-stop
		close(c.stopping)
	}()
	if !c.run() {
		os.Exit(1)
	}
}

// limit is how many allocations the user quota may have at a time; half more in MiB.
const limit = 6

// run starts the callers, waits until they have given everything back, and reports.
func (c *checker) run() bool {
	for user, most := range map[string]message{
		"quota": {"instances": fmt.Sprint(limit), "memoryBytes": fmt.Sprint(limit * 3 / 2 * mebibyte)},
		"wait":  {"instances": "1"},
	} {
		c.must("QuotaService/Put", message{"quota": message{"selector": message{"user": user}, "limit": most}})
	}
	var callers sync.WaitGroup
	for count, caller := range map[int]func(name string){8: c.churn, 4: c.fill, 3: c.hold, 5: c.wait, 1: c.expire, 2: c.list} {
		for n := range count {
			callers.Go(func() { caller(fmt.Sprintf("%d-%d-%d", time.Now().UnixNano(), count, n)) })
		}
	}
	callers.Wait()
	c.end()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	fmt.Println("calls", c.calls)
	fmt.Println("problems", c.problems)
	return len(c.problems) == 0 && c.calls["granted"] > 0
}

// end compares the books with those of the coordinators, once nobody calls any more.
func (c *checker) end() {
	for _, user := range []string{"quota", "fill", "hold"} {
		if left := c.all(user); len(left) > 0 {
			c.problem("live at the end", "%s: %v", user, left)
		}
	}
	c.mutex.Lock()
	ended := c.ended
	c.mutex.Unlock()
	for _, id := range ended[max(0, len(ended)-1000):] {
		switch status, answer := c.final("AllocationService/Get", message{"id": id}); {
		case status != 200:
			c.problem("an ended one is unknown", "%s: %d", id, status)
		case stateOf(answer) != "RELEASED" && stateOf(answer) != "CANCELED":
			c.problem("an ended one is", "%s: %s", id, stateOf(answer))
		}
	}
	answer := c.must("ClusterService/Audit", message{})
	if found, _ := answer["violations"].([]any); len(found) > 0 {
		c.problem("audit", "%v", found)
	}
}
