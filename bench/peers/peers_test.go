package peers_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/bench/peers"
)

// fake grants at once, unless a request has to wait, and records the requests.
type fake struct {
	granted func(string, int)
	most    int           // grants no more than that; 0: no bound
	takes   time.Duration // duration of each call of Submit

	mu       sync.Mutex
	asked    []peers.Request // guarded by mu
	released int             // guarded by mu
	grants   int             // guarded by mu
	closed   bool
	fails    error
}

func (f *fake) Open(_ peers.Cluster, granted func(string, int)) (string, error) {
	f.granted = granted
	return "v1", f.fails
}

func (f *fake) Submit(requests []peers.Request) error {
	time.Sleep(f.takes)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, requests...)
	for _, r := range requests {
		for range r.Count {
			if !r.Waits && (f.most == 0 || f.grants < f.most) {
				f.grants++
				f.granted(r.Name, 1)
			}
		}
	}
	return nil
}

func (f *fake) Release(peers.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.released++
	return nil
}

func (f *fake) Close() error { f.closed = true; return nil }

// serve gives a peer orders and returns its answers.
func serve(t *testing.T, f *fake, orders ...peers.Order) (answers []peers.Answer) {
	t.Helper()
	var in, out bytes.Buffer
	for _, o := range orders {
		if err := json.NewEncoder(&in).Encode(o); err != nil {
			t.Fatal(err)
		}
	}
	if err := peers.Serve(f, &in, &out); err != nil {
		t.Fatal(err)
	}
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var a peers.Answer
		if err := decoder.Decode(&a); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	if len(answers) != len(orders) || !f.closed {
		t.Fatalf("%d answers to %d orders, closed %v", len(answers), len(orders), f.closed)
	}
	return answers
}

func open() peers.Order { return peers.Order{Open: &peers.Cluster{Hosts: 1}} }

func TestAClosedLoopEndsWhatItWasGranted(t *testing.T) {
	f := &fake{}
	answers := serve(t, f, open(), peers.Order{Closed: &peers.Closed{Clients: 3, Lasts: time.Millisecond, Request: peers.Quantities{Memory: 1 << 30}}})
	if answers[0].Version != "v1" {
		t.Errorf("version %q: want v1", answers[0].Version)
	}
	a := answers[1]
	if a.Err != "" || a.Pairs != f.released || a.Pairs != len(f.asked) || a.Pairs < 3 || a.Took <= 0 || a.P99 < a.P50 {
		t.Errorf("answer %+v, %d asked, %d released: want as many pairs, at least one of each client", a, len(f.asked), f.released)
	}
	names := make(map[string]bool)
	for _, r := range f.asked {
		if names[r.Name] {
			t.Errorf("request %s was asked twice", r.Name)
		}
		names[r.Name] = true
	}
}

func TestABurstIsGrantedAndStays(t *testing.T) {
	f := &fake{}
	a := serve(t, f, open(), peers.Order{Burst: &peers.Batch{Apps: 2, Requests: 5, Request: peers.Quantities{CPU: 1000}, Sizes: 1}})[1]
	if a.Err != "" || a.Pairs != 10 || f.released != 0 || len(f.asked) != 2 || f.asked[1].App != 1 || f.asked[1].Count != 5 {
		t.Errorf("answer %+v to %+v, %d released: want 10 grants of two applications", a, f.asked, f.released)
	}
}

// The shapes are those of bench/workloads/burst.yaml with about a tenth of the requests.
func TestEachShapeOfBurstIsGranted(t *testing.T) {
	for _, shape := range []struct{ apps, requests int }{{10, 100}, {100, 10}, {1000, 1}, {100, 50}, {2, 2500}} {
		f := &fake{}
		burst := &peers.Batch{Apps: shape.apps, Requests: shape.requests, Request: peers.Quantities{CPU: 1000}, Sizes: 1, Within: time.Minute}
		a := serve(t, f, open(), peers.Order{Burst: burst})[1]
		if a.Err != "" || a.Pairs != shape.apps*shape.requests || len(f.asked) != shape.apps || a.Took <= 0 {
			t.Errorf("answer %+v to %d applications: want %d grants of %d", a, len(f.asked), shape.apps*shape.requests, shape.apps)
		}
	}
}

func TestABurstIsCutOffAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		burst := &peers.Batch{Apps: 2, Requests: 5, Request: peers.Quantities{CPU: 1000}, Sizes: 1, Within: time.Minute}
		a := serve(t, &fake{most: 7}, open(), peers.Order{Burst: burst})[1]
		if a.Err != "" || a.Pairs != 7 || a.Took != burst.Within {
			t.Errorf("answer %+v: want the 7 grants that there were in %s", a, burst.Within)
		}
	})
}

// A scheduler that takes requests slowly does not get the rest of them.
func TestABurstIsNotHandedInAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: 25 * time.Second}
		burst := &peers.Batch{Apps: 1000, Requests: 1, Request: peers.Quantities{CPU: 1000}, Sizes: 1, Within: time.Minute}
		a := serve(t, f, open(), peers.Order{Burst: burst})[1]
		if a.Err != "" || a.Pairs > 3 || len(f.asked) != 3 || a.Took != 75*time.Second {
			t.Errorf("answer %+v to %d requests: want 3 that begin within %s", a, len(f.asked), burst.Within)
		}
	})
}

func TestRequestsThatWaitHaveTheirSizes(t *testing.T) {
	f := &fake{}
	a := serve(t, f, open(), peers.Order{Wait: &peers.Batch{From: 4, Apps: 1, Requests: 7, Request: peers.Quantities{Memory: 100}, Sizes: 3}})[1]
	if a.Err != "" || len(f.asked) != 3 {
		t.Fatalf("answer %+v to %+v: want three requests", a, f.asked)
	}
	for i, want := range []peers.Request{
		{App: 4, Count: 3, Quantity: peers.Quantities{Memory: 100}, Waits: true},
		{App: 4, Count: 2, Quantity: peers.Quantities{Memory: 200}, Waits: true},
		{App: 4, Count: 2, Quantity: peers.Quantities{Memory: 300}, Waits: true},
	} {
		if want.Name = f.asked[i].Name; f.asked[i] != want {
			t.Errorf("request %+v: want %+v", f.asked[i], want)
		}
	}
}

func TestAnOrderThatFailsIsAnAnswer(t *testing.T) {
	answers := serve(t, &fake{fails: errors.New("no room")}, open(), peers.Order{})
	if answers[0].Err != "no room" || !strings.Contains(answers[1].Err, "want Open") {
		t.Errorf("answers %+v: want what went wrong", answers)
	}
}
