package yarn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// applicationsOf makes a ResourceManager with live applications; the first ones have the ids of
// manyIDs. It answers single and list requests in Hadoop's format.
func applicationsOf(t *testing.T, rm *fakeRM, live int) {
	t.Helper()
	one := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"state":"RUNNING","queue":"root.a","user":"alice","allocatedMB":2048,"allocatedVCores":2,"diagnostics":%q}`, id, strings.Repeat("x", 300))
	}
	scheduler := strings.Replace(fairAnswer(64<<10), `"numActiveApps":1`, fmt.Sprintf(`"numActiveApps":%d`, live), 1)
	rm.does("/scheduler", answerJSON(scheduler))
	var all []string
	for _, id := range manyIDs(live) {
		rm.does("/apps/"+id, answerJSON(`{"app":`+one(id)+`}`))
		all = append(all, one(id))
	}
	rm.does("/apps", answerJSON(`{"apps":{"app":[`+strings.Join(all, ",")+`]}}`))
}

func TestManyOfOursAreAskedForByOneRequest(t *testing.T) {
	for _, c := range []struct {
		live, ours int
		want       string // paths of the requests
	}{
		{40, 7, "/apps/ID×7"},
		{40, 8, "/apps×1"},
		{64, 8, "/apps×1"},
		{65, 8, "/apps/ID×8"},
		{200, 200, "/apps×1"},
	} {
		t.Run(fmt.Sprintf("%d of %d", c.ours, c.live), func(t *testing.T) {
			rm := newRM(t)
			applicationsOf(t, rm, c.live)
			p := openAt(t, kind{}, []*fakeRM{rm})
			snapshot(t, p)
			rm.takeAsked()
			got, err := p.Applications(t.Context(), manyIDs(c.ours))
			if err != nil || len(got) != c.ours {
				t.Fatalf("%d answers, %v", len(got), err)
			}
			want := resource.Vector{}.WithMemory(2 << 30).WithCPU(2000)
			for _, a := range got {
				if held := a.Allocated[providers.AnyPartition]; !a.Known || a.Ended || a.Queue != "root.a" || a.User != "alice" || !held.Equal(want) {
					t.Errorf("%+v", a)
				}
			}
			if asked := shortPaths(rm.takeAsked()); asked != c.want {
				t.Errorf("asked for %s, want %s", asked, c.want)
			}
			if q := rm.request("/apps"); q != nil && (q.URL.Query().Get("states") != liveStates || q.URL.Query().Get("deSelects") != "resourceRequests") {
				t.Errorf("the list: %s", q.URL)
			}
		})
	}
}

// shortPaths is paths with all single applications merged into one.
func shortPaths(asked map[string]int) string {
	short := map[string]int{}
	for path, n := range asked {
		if strings.HasPrefix(path, "/apps/") {
			path = "/apps/ID"
		}
		short[path] += n
	}
	return paths(short)
}

// Applications that the list lacks have ended, or the list cannot show them: they are asked for one
// by one.
func TestWhatIsNotInTheListIsAskedFor(t *testing.T) {
	rm := newRM(t)
	applicationsOf(t, rm, 20)
	ids := manyIDs(21)
	rm.does("/apps/"+ids[20], answerJSON(`{"app":{"id":"`+ids[20]+`","state":"FAILED","queue":"root.a"}}`))
	p := openAt(t, kind{}, []*fakeRM{rm})
	for range 2 {
		snapshot(t, p)
		got, err := p.Applications(t.Context(), ids)
		if err != nil || len(got) != 21 || !got[20].Ended || got[19].Ended {
			t.Errorf("%d answers, %v", len(got), err)
		}
	}
	if asked := shortPaths(rm.takeAsked()); asked != "/apps×2 /apps/ID×1 /info×1 /scheduler×2" {
		t.Errorf("asked for %s", asked)
	}
}

// The list has no ended applications. It is useful all the same.
func TestAListIsOfUseAlsoIfMostOfOursHaveEnded(t *testing.T) {
	rm := newRM(t)
	applicationsOf(t, rm, 20)
	ids := manyIDs(60)
	for i, id := range ids[20:] {
		answer := answerJSON(`{"app":{"id":"` + id + `","state":"FINISHED","queue":"root.a"}}`)
		if i%2 == 0 {
			answer = answerWith(404, `{"RemoteException":{"exception":"NotFoundException"}}`, "Content-Type", "application/json")
		}
		rm.does("/apps/"+id, answer)
	}
	p := openAt(t, kind{}, []*fakeRM{rm})
	snapshot(t, p)
	rm.takeAsked()
	for _, want := range []string{"/apps×1 /apps/ID×40", "/apps×1 /apps/ID×20"} { // unknown ids are asked for again
		if got, err := p.Applications(t.Context(), ids); err != nil || len(got) != 60 {
			t.Fatalf("%d answers, %v", len(got), err)
		}
		if asked := shortPaths(rm.takeAsked()); asked != want {
			t.Errorf("asked for %s, want %s", asked, want)
		}
	}
}

func TestAListThatIsOfNoUseIsNotAskedForAgain(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"no such thing":   answerWith(404, "<html>Not Found</html>", "Content-Type", "text/html"),
		"it fails":        answerWith(500, `{"RemoteException":{"exception":"NullPointerException"}}`, "Content-Type", "application/json"),
		"not allowed":     answerWith(403, "no"),
		"none of ours":    answerJSON(`{"apps":{"app":[{"id":"application_1_9","state":"RUNNING"}]}}`),
		"nothing":         answerJSON(`{"apps":null}`),
		"no list":         answerJSON(`{}`),
		"it breaks off":   breaksOff,
		"it is too large": neverEnds,
		"lists in lists":  answerJSON(`{"apps":` + strings.Repeat(`{"app":`, 300) + `1` + strings.Repeat("}", 301)),
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			rm := newRM(t)
			applicationsOf(t, rm, 20)
			rm.does("/apps", answer)
			p := openAt(t, kind{now: clock.Now}, []*fakeRM{rm}, "maxBytes", "64KiB")
			snapshot(t, p)
			rm.takeAsked()
			for i, want := range []string{"/apps×1 /apps/ID×20", "/apps/ID×20", "/apps×1 /apps/ID×20"} {
				if i == 2 {
					clock.advance(listPause)
				}
				if got, err := p.Applications(t.Context(), manyIDs(20)); err != nil || len(got) != 20 {
					t.Errorf("%d answers, %v", len(got), err)
				}
				if asked := shortPaths(rm.takeAsked()); asked != want {
					t.Errorf("time %d: asked for %s, want %s", i, asked, want)
				}
			}
		})
	}
}

// A list that hangs leaves time to ask one by one.
func TestAListThatHangsTakesHalfOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newNetwork()
		rm := web.start(t, "rm1:8088")
		applicationsOf(t, rm, 20)
		rm.does("/apps", hang)
		p := openAt(t, kind{dial: web.dial}, []*fakeRM{rm})
		snapshot(t, p)
		begin := time.Now()
		if got, err := p.Applications(t.Context(), manyIDs(20)); err != nil || len(got) != 20 || time.Since(begin) != 5*time.Second {
			t.Errorf("%d answers, %v after %s", len(got), err, time.Since(begin))
		}
	})
}

// The provider never sends more requests in a minute than the setting allows, and still reads the
// queues.
func TestRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newNetwork()
		rm := web.start(t, "rm1:8088")
		applicationsOf(t, rm, 2000)
		var mu sync.Mutex
		var times []time.Time // guarded by mu
		count := func(next http.HandlerFunc) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				times = append(times, time.Now())
				mu.Unlock()
				next(w, r)
			}
		}
		rm.change(func() {
			for path, next := range rm.instead {
				rm.instead[path] = count(next)
			}
		})
		p := openAt(t, kind{dial: web.dial}, []*fakeRM{rm}, "requestsPerMinute", "60")
		ids := manyIDs(100)
		answered := 0
		for range 60 {
			begin := time.Now()
			snapshot(t, p)
			if took := time.Since(begin); took > 0 {
				t.Errorf("the queues came after %s", took)
			}
			got, err := p.Applications(t.Context(), ids)
			if answered = len(got); len(got) < len(ids) && (err == nil || !strings.Contains(err.Error(), "requestsPerMinute")) {
				t.Errorf("%d of %d, %v", len(got), len(ids), err)
			}
			time.Sleep(5 * time.Second)
		}
		most := 0
		for i := range times {
			n := 0
			for _, at := range times[i:] {
				if at.Sub(times[i]) < time.Minute {
					n++
				}
			}
			most = max(most, n)
		}
		if most > 60 || most < 24 || answered == 0 {
			t.Errorf("%d requests in a minute, %d answers", most, answered)
		}
		asked := 0
		for _, n := range rm.takeAsked() {
			asked += n
		}
		if sent := p.Requests(); sent != int64(asked) || asked < len(times) { // /info counts, too
			t.Errorf("it counts %d of %d", sent, asked)
		}

		// A server that was not asked for lack of budget is not reported as unreachable.
		for p.budget.limiter.Allow() {
		}
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		var spent *BudgetError
		if _, err := p.Snapshot(ctx); !errors.Is(err, context.Canceled) || errors.As(err, &spent) {
			t.Errorf("after its caller has gone: %v", err)
		}
		ctx = t.Context()
		p.settings.pace.Timeout = 100 * time.Millisecond
		_, err := p.Snapshot(ctx)
		wantUnavailable(t, err, false)
		if got := troubles(t, err)[rm.URL]; got == nil || got.Trouble != NotAsked || !strings.Contains(err.Error(), "no more than 60 requests a minute") {
			t.Errorf("%v", err)
		}
	})
}

// FuzzApplications feeds any input to the reader of lists.
func FuzzApplications(f *testing.F) {
	f.Add([]byte(`{"apps":{"app":[{"id":"application_1_1","state":"RUNNING","queue":"a","allocatedMB":-1,"allocatedVCores":1e308}]}}`))
	f.Add([]byte(`{"apps":{"app":{"id":"application_1_1","resourceInfo":{"resourceUsagesByPartition":[{"partitionName":"x","used":{"memory":9e99,"vCores":-3}}]}}}}`))
	f.Add([]byte(`{"apps":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		found := map[string]providers.Application{}
		_ = readApplications(bytes.NewReader(body), func(string) bool { return true }, found)
		for id, a := range found {
			for partition, v := range a.Allocated {
				if err := v.Validate(); err != nil {
					t.Fatalf("%s holds %v in %q: %v", id, v, partition, err)
				}
			}
		}
	})
}
