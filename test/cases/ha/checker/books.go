package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

const mebibyte = 1 << 20

// patience is for how long a call is repeated until it has a final answer: far longer than any
// fault lasts.
const patience = 4 * time.Minute

type message = map[string]any

// checker holds the books. The mutex guards all that follows it.
type checker struct {
	addresses  []string
	client     *http.Client
	stopping   chan struct{}
	hostMemory int64

	mutex    sync.Mutex
	grants   *os.File
	calls    map[string]int
	problems map[string]int
	sums     map[string]sum    // by account: a user or a host
	live     map[string]grant  // granted, and no release was sent
	ended    []string          // released, and the release was acknowledged
	requests map[string]string // the request of each id
}

type sum struct{ count, bytes int64 }

type grant struct {
	id, user, host string
	bytes          int64
	at             time.Time
}

func newChecker(addresses []string, grants *os.File, hostMemory int64) *checker {
	return &checker{
		addresses: addresses, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}, stopping: make(chan struct{}),
		hostMemory: hostMemory, grants: grants, calls: make(map[string]int), problems: make(map[string]int),
		sums: make(map[string]sum), live: make(map[string]grant), requests: make(map[string]string),
	}
}

func (c *checker) stopped() bool {
	select {
	case <-c.stopping:
		return true
	default:
		return false
	}
}

// pause lets up to so many milliseconds pass.
func pause(most int) { time.Sleep(time.Duration(rand.IntN(most)+1) * time.Millisecond) }

// problem counts one, and prints the first ten of its kind.
func (c *checker) problem(kind, format string, arguments ...any) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.problems[kind]++; c.problems[kind] <= 10 {
		fmt.Printf("PROBLEM %s %s: %s\n", time.Now().Format(time.TimeOnly), kind, fmt.Sprintf(format, arguments...))
	}
}

func (c *checker) count(what string) {
	c.mutex.Lock()
	c.calls[what]++
	c.mutex.Unlock()
}

// call asks one coordinator once. The status is 0 without an answer.
func (c *checker) call(procedure string, body message, within time.Duration) (int, message) {
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	url := c.addresses[rand.IntN(len(c.addresses))] + "/bursar.v1." + procedure
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(encoded))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	var answer message
	if err != nil || json.Unmarshal(content, &answer) != nil {
		return 0, nil
	}
	return response.StatusCode, answer
}

// final repeats a call at any coordinator until the answer is one about the request.
func (c *checker) final(procedure string, body message) (int, message) {
	for end := time.Now().Add(patience); ; pause(100) {
		status, answer := c.call(procedure, body, 20*time.Second)
		text, _ := answer["message"].(string)
		c.count(procedure)
		switch status {
		case 200, 400, 404, 409, 412:
			return status, answer
		case 429:
			if !strings.Contains(text, "too many") {
				return status, answer
			}
		}
		if time.Now().After(end) {
			c.problem("no final answer", "%s: %d %s", procedure, status, text)
			return status, answer
		}
	}
}

// must is final for a call that nothing may refuse.
func (c *checker) must(procedure string, body message) message {
	status, answer := c.final(procedure, body)
	if status != 200 {
		c.problem("refused", "%s %v: %d %v", procedure, body, status, answer)
	}
	return answer
}

func allocationOf(answer message) message { a, _ := answer["allocation"].(message); return a }

func text(in message, name string) string { s, _ := in[name].(string); return s }

func stateOf(answer message) string {
	return strings.TrimPrefix(text(allocationOf(answer), "state"), "ALLOCATION_STATE_")
}

// book adds to the accounts of a grant. A grant counts from its answer to the sending of
// its end: the coordinators' own books have it for longer.
func (c *checker) book(g grant, count, bytes int64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for account, most := range map[string]sum{g.user: limitOf(g.user), "host " + g.host: {bytes: c.hostMemory}} {
		now := c.sums[account]
		now.count, now.bytes = now.count+count, now.bytes+bytes
		c.sums[account] = now
		if bytes > 0 && (most.count > 0 && now.count > most.count || most.bytes > 0 && now.bytes > most.bytes) {
			c.problems["a limit was passed"]++
			fmt.Printf("PROBLEM %s has %+v of %+v\n", account, now, most)
		}
	}
}

func limitOf(user string) sum {
	switch user {
	case "quota":
		return sum{limit, limit * 3 / 2 * mebibyte}
	case "wait":
		return sum{count: 1}
	default:
		return sum{}
	}
}

// granted enters a grant.
func (c *checker) granted(answer message, request, user string, bytes int64) grant {
	a := allocationOf(answer)
	g := grant{id: text(a, "id"), user: user, host: text(a, "hostId"), bytes: bytes, at: time.Now()}
	c.mutex.Lock()
	if other, is := c.requests[g.id]; is && other != request {
		c.problems["one id for two requests"]++
	}
	c.requests[g.id] = request
	c.live[g.id] = g
	c.calls["granted"]++
	fmt.Fprintln(c.grants, g.at.UnixMilli())
	c.mutex.Unlock()
	c.book(g, 1, bytes)
	return g
}

// leave takes a grant off the books, before its end is sent.
func (c *checker) leave(g grant, bytes int64) {
	c.book(g, -1, -bytes)
	c.mutex.Lock()
	delete(c.live, g.id)
	c.mutex.Unlock()
}

// allocate sends a request twice at once, as a client does that has lost its connection: both
// answers must be about one allocation.
func (c *checker) allocate(request, user, wait, ttl string, bytes int64) (grant, bool) {
	body := message{
		"requestId": request, "labels": message{"user": user}, "wait": wait, "reservationTtl": ttl,
		"resource": message{"memoryBytes": fmt.Sprint(bytes), "instances": "1"},
	}
	answers := make(chan message, 2)
	for range 2 {
		go func() {
			status, answer := c.final("AllocationService/Allocate", body)
			if status != 200 {
				answer = nil
			}
			answers <- answer
		}()
	}
	first, second := <-answers, <-answers
	if first == nil {
		first, second = second, nil
	}
	if first == nil {
		c.count("refused")
		return grant{}, false
	}
	if second != nil && text(allocationOf(first), "id") != text(allocationOf(second), "id") {
		c.problem("a request was granted twice", "%s", request)
	}
	return c.granted(first, request, user, bytes), true
}

// finish releases a grant or cancels its reservation.
func (c *checker) finish(g grant, bytes int64, procedure, want string) {
	c.leave(g, bytes)
	answer := c.must("AllocationService/"+procedure, message{"id": g.id})
	if state := stateOf(answer); state != want {
		c.problem("an acknowledged grant ended as", "%s %s: %q, want %s", g.user, g.id, state, want)
	}
	c.mutex.Lock()
	c.ended = append(c.ended, g.id)
	c.mutex.Unlock()
}

// all lists the live allocations of a user.
func (c *checker) all(user string) map[string]bool {
	ids := make(map[string]bool)
	for token := ""; ; {
		answer := c.must("AllocationService/List", message{"pageSize": 500, "pageToken": token, "labels": message{"user": user}})
		list, _ := answer["allocations"].([]any)
		for _, one := range list {
			a, _ := one.(message)
			ids[text(a, "id")] = true
		}
		if token = text(answer, "nextPageToken"); token == "" {
			return ids
		}
	}
}
