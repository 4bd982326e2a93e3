package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bursar/bursar/bench/peers"
)

// YuniKorn core has global state, so the whole test uses one cluster.
func TestYuniKornRunsTheWorkloads(t *testing.T) {
	const gib = 1 << 30
	cluster := peers.Cluster{
		Hosts: 3, Host: peers.Quantities{Memory: 64 * gib, CPU: 64_000},
		Queues: []peers.Queue{
			{Name: "busy", Limit: peers.Quantities{Memory: 100 * gib, CPU: 100_000}, PerUser: peers.Quantities{Memory: 50 * gib, CPU: 50_000}},
			{Name: "full", Limit: peers.Quantities{Memory: 8 * gib}},
		},
		Apps: []peers.App{{Queue: "busy", User: "alice"}, {Queue: "busy", User: "bob"}, {Queue: "full", User: "carol"}},
	}
	one := peers.Quantities{Memory: gib, CPU: 1000}
	var in, out bytes.Buffer
	for _, o := range []peers.Order{
		{Open: &cluster},
		{Burst: &peers.Batch{From: 2, Apps: 1, Requests: 2, Request: peers.Quantities{Memory: 4 * gib, CPU: 1000}, Sizes: 1}},
		{Wait: &peers.Batch{From: 2, Apps: 1, Requests: 10, Request: one, Sizes: 4}},
		{Closed: &peers.Closed{Clients: 2, Lasts: 20 * time.Millisecond, Request: one}},
		{Burst: &peers.Batch{Apps: 2, Requests: 20, Request: one, Sizes: 1}},
	} {
		if err := json.NewEncoder(&in).Encode(o); err != nil {
			t.Fatal(err)
		}
	}
	s := &watched{scheduler: &scheduler{}, grants: make(map[string]int)}
	if err := peers.Serve(s, &in, &out); err != nil {
		t.Fatal(err)
	}
	var answers []peers.Answer
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var a peers.Answer
		if err := decoder.Decode(&a); err != nil {
			t.Fatal(err)
		}
		if a.Err != "" {
			t.Fatalf("answer %d: %s", len(answers), a.Err)
		}
		answers = append(answers, a)
	}
	if answers[1].Pairs != 2 || answers[3].Pairs < 2 || answers[4].Pairs != 40 {
		t.Errorf("answers %+v: want 2 grants, at least 2 pairs, 40 grants", answers)
	}
	if full := s.grants["r2-2-0"]; full != 2 || len(s.grants) < 6 {
		t.Errorf("grants %v: want 2 in the full queue", s.grants)
	}
	for name, n := range s.grants {
		if strings.HasPrefix(name, "r3-") {
			t.Errorf("%d of request %s were granted: want them to wait, the queue is full", n, name)
		}
	}
}

// watched is the scheduler with its grants.
type watched struct {
	*scheduler

	mu     sync.Mutex
	grants map[string]int // guarded by mu; by the name of the request
}

func (s *watched) Open(c peers.Cluster, granted func(string, int)) (string, error) {
	return s.scheduler.Open(c, func(name string, n int) {
		s.mu.Lock()
		s.grants[name] += n
		s.mu.Unlock()
		granted(name, n)
	})
}
