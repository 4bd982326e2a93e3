package yarn

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

func app(fields string) string {
	return fmt.Sprintf(`{"app":{"id":"application_1_1","user":"alice","queue":"a1","finalStatus":"UNDEFINED",%s}}`, fields)
}

func TestApplicationAsItIsTold(t *testing.T) {
	const none = `{"RemoteException":{"exception":"NotFoundException","message":"java.lang.Exception: app with id: application_1_1 not found","javaClassName":"org.apache.hadoop.yarn.webapp.NotFoundException"}}`
	whole := resource.Vector{}.WithMemory(6 << 30).WithCPU(3000)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   providers.Application // with its id
		wrong  bool
	}{
		"runs": {
			answerJSON(app(`"state":"RUNNING","allocatedMB":6144,"allocatedVCores":3,"reservedMB":1024`)),
			providers.Application{Known: true, Queue: "a1", User: "alice", Allocated: map[string]resource.Vector{providers.AnyPartition: whole}},
			false,
		},
		"is accepted and has nothing yet": {
			answerJSON(app(`"state":"ACCEPTED","allocatedMB":-1,"allocatedVCores":-1`)),
			providers.Application{Known: true, Queue: "a1", User: "alice", Allocated: map[string]resource.Vector{providers.AnyPartition: resource.Vector{}.WithMemory(0).WithCPU(0)}},
			false,
		},
		"may not be seen into": {answerJSON(app(`"state":"RUNNING"`)), providers.Application{Known: true, Queue: "a1", User: "alice", Allocated: map[string]resource.Vector{}}, false},
		"by partition, with custom types": {
			answerJSON(app(`"state":"RUNNING","allocatedMB":9999,"allocatedVCores":9,"resourceInfo":{"resourceUsagesByPartition":[
				{"partitionName":"","used":{"memory":6144,"vCores":3},"reserved":{"memory":1,"vCores":1}},
				{"partitionName":"gpu","used":{"memory":6144,"vCores":3,"resourceInformations":{"resourceInformation":[
					{"name":"memory-mb","units":"Mi","value":6144},{"name":"yarn.io/gpu","units":"k","value":2},{"name":"fpga","units":"m","value":1999}]}}}]}`)),
			providers.Application{Known: true, Queue: "a1", User: "alice", Allocated: map[string]resource.Vector{"": whole, "gpu": whole.With("yarn.io/gpu", 2000).With("fpga", 1)}},
			false,
		},
		"partitions without figures": {
			answerJSON(app(`"state":"RUNNING","allocatedMB":6144,"allocatedVCores":3,"resourceInfo":{"resourceUsagesByPartition":[]}`)),
			providers.Application{Known: true, Queue: "a1", User: "alice", Allocated: map[string]resource.Vector{providers.AnyPartition: whole}},
			false,
		},
		"no partitions": {
			answerJSON(app(`"state":"RUNNING","allocatedMB":6144,"allocatedVCores":3,"resourceInfo":null`)),
			providers.Application{Known: true, Queue: "a1", User: "alice", Allocated: map[string]resource.Vector{providers.AnyPartition: whole}},
			false,
		},
		"finished":    {answerJSON(app(`"state":"FINISHED","allocatedMB":-1,"allocatedVCores":-1`)), providers.Application{Known: true, Ended: true, Queue: "a1", User: "alice"}, false},
		"failed":      {answerJSON(app(`"state":"FAILED","diagnostics":"exit\n 1"`)), providers.Application{Known: true, Ended: true, Failure: "FAILED", Diagnostics: "exit 1", Queue: "a1", User: "alice"}, false},
		"killed":      {answerJSON(app(`"state":"KILLED"`)), providers.Application{Known: true, Ended: true, Failure: "KILLED", Queue: "a1", User: "alice"}, false},
		"says failed": {answerJSON(app(`"state":"FINISHED","finalStatus":"FAILED"`)), providers.Application{Known: true, Ended: true, Failure: "FAILED", Queue: "a1", User: "alice"}, false},
		"finishing":   {answerJSON(app(`"state":"FINISHING"`)), providers.Application{Known: true, Queue: "a1", User: "alice", Allocated: map[string]resource.Vector{}}, false},
		"not known":   {answerWith(404, none, "Content-Type", "application/json"), providers.Application{}, false},
		"a dead path": {answerWith(404, "<html>Not Found</html>", "Content-Type", "text/html"), providers.Application{}, true},
		"forbidden":   {answerWith(403, "no"), providers.Application{}, true},
		"another":     {answerJSON(strings.Replace(app(`"state":"FINISHED"`), "application_1_1", "application_1_2", 1)), providers.Application{}, true},
		"nonsense":    {answerJSON(`{"app":[]}`), providers.Application{}, true},
		"empty":       {answerJSON(`{"app":null}`), providers.Application{}, true},
		"breaks off":  {answerJSON(`{"app":{"id":"application_1_1","state":"KILLED"`), providers.Application{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			rm := newRM(t)
			rm.does("/apps/application_1_1", c.answer)
			got, err := openAt(t, kind{}, []*fakeRM{rm}).Applications(t.Context(), []string{"application_1_1"})
			if c.wrong {
				if err == nil || len(got) != 0 || !strings.Contains(err.Error(), rm.URL) {
					t.Errorf("%+v, %v; want nothing and an error", got, err)
				}
				return
			}
			c.want.ID = "application_1_1"
			if diff := cmp.Diff([]providers.Application{c.want}, got, cmp.Comparer(resource.Vector.Equal)); err != nil || diff != "" {
				t.Errorf("%v, (-want +got):\n%s", err, diff)
			}
			if query := rm.request("/apps/application_1_1").URL.RawQuery; query != "deSelects=resourceRequests" {
				t.Errorf("query: %s", query)
			}
		})
	}
}

// manyApps answers for every application, and records the largest number of concurrent requests.
type manyApps struct {
	mu    sync.Mutex
	asked map[string]int
	ended map[string]bool
	now   atomic.Int32
	most  int32 // guarded by mu, like the other fields
	takes time.Duration
}

func (m *manyApps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := m.now.Add(1)
	defer m.now.Add(-1)
	m.mu.Lock()
	m.most = max(m.most, now)
	m.mu.Unlock()
	time.Sleep(m.takes)
	id := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	m.mu.Lock()
	m.asked[id]++
	state := "RUNNING"
	if m.ended[id] {
		state = "FINISHED"
	}
	m.mu.Unlock()
	body, _ := json.Marshal(map[string]any{"app": map[string]any{"id": id, "state": state, "queue": "root.a", "allocatedMB": 1024, "allocatedVCores": 1}})
	answerJSON(string(body))(w, r)
}

// times counts the requests per application since the last call: it maps a number of requests to
// the number of applications.
func (m *manyApps) times() map[int]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := map[int]int{}
	for _, n := range m.asked {
		list[n]++
	}
	m.asked = map[string]int{}
	return list
}

func manyIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("application_1700000000000_%04d", i)
	}
	return ids
}

func TestManyApplicationsAreAskedForInTurns(t *testing.T) {
	clock := newClock()
	rm := newRM(t)
	apps := &manyApps{asked: map[string]int{}, ended: map[string]bool{}}
	rm.does("*", func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/apps/") {
			apps.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	})
	rm.does("/info", answerJSON(`{"clusterInfo":{"id":1,"haState":"ACTIVE"}}`))
	p := openAt(t, kind{now: clock.Now}, []*fakeRM{rm}, "maxAge", "20s", "requestsPerMinute", "100000")
	ids := manyIDs(2400)
	ask := func(want int) {
		t.Helper()
		clock.advance(5 * time.Second)
		got, err := p.Applications(t.Context(), ids)
		if err != nil || len(got) != want {
			t.Errorf("%d applications, %v; want %d", len(got), err, want)
		}
	}
	for _, want := range []int{maxAsked, 2 * maxAsked, 2400} {
		ask(want)
	}
	// 3 × 1024 − 2400 are asked for a second time
	if got := apps.times(); !maps.Equal(got, map[int]int{1: 2400 - 672, 2: 672}) {
		t.Errorf("times: %v", got)
	}
	for range 6 {
		ask(2400)
	}
	// After 20 s without a new answer an application is unknown.
	rm.does("*", answerWith(503, "not now"))
	for range 4 {
		clock.advance(5 * time.Second)
		if _, err := p.Applications(t.Context(), ids); err == nil {
			t.Error("no error")
		}
	}
	got, err := p.Applications(t.Context(), ids)
	wantUnavailable(t, err, false)
	if len(got) != maxAsked { // the applications of the call before
		t.Errorf("%d are still known", len(got))
	}
	clock.advance(time.Second)
	if got, _ = p.Applications(t.Context(), ids); len(got) != 0 {
		t.Errorf("%d are still known after 21 s", len(got))
	}
}

func TestEndedApplicationsAreAskedForOnce(t *testing.T) {
	clock := newClock()
	rm := newRM(t)
	apps := &manyApps{asked: map[string]int{}, ended: map[string]bool{"application_1_1": true}}
	rm.does("/apps/application_1_1", apps.ServeHTTP)
	rm.does("/apps/application_1_2", apps.ServeHTTP)
	p := openAt(t, kind{now: clock.Now}, []*fakeRM{rm})
	for range 3 {
		clock.advance(time.Hour)
		got, err := p.Applications(t.Context(), []string{"application_1_2", "application_1_1", "application_1_2"})
		if err != nil || len(got) != 2 || !got[0].Ended || got[1].Ended {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if got := apps.times(); !maps.Equal(got, map[int]int{1: 1, 3: 1}) {
		t.Errorf("times: %v", got)
	}
	if _, err := p.Applications(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if _, err := p.Applications(t.Context(), []string{"application_1_1"}); err != nil {
		t.Error(err)
	}
	if got := apps.times(); !maps.Equal(got, map[int]int{1: 1}) {
		t.Errorf("what is forgotten is asked for again: %v", got)
	}
}

func TestFourApplicationsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newNetwork()
		rm := web.start(t, "rm1:8088")
		apps := &manyApps{asked: map[string]int{}, ended: map[string]bool{}, takes: time.Second}
		ids := manyIDs(30)
		for _, id := range ids {
			rm.does("/apps/"+id, apps.ServeHTTP)
		}
		p := openAt(t, kind{dial: web.dial}, []*fakeRM{rm})
		begin := time.Now()
		if _, err := p.Applications(t.Context(), ids[:20]); err != nil || apps.most != 4 || time.Since(begin) != 5*time.Second {
			t.Errorf("%v, %d at once, %v; want 4 and 5s", err, apps.most, time.Since(begin))
		}
		// When the time is over, the call returns the answers so far.
		apps.takes = 3 * time.Second
		begin = time.Now()
		got, err := openAt(t, kind{dial: web.dial}, []*fakeRM{rm}).Applications(t.Context(), ids)
		if wantUnavailable(t, err, false); len(got) != 3*4 || time.Since(begin) != 10*time.Second {
			t.Errorf("%d after %v; want 12 after 10s", len(got), time.Since(begin))
		}
		// 20 answers are 20 s old; the other 10 applications come first
		if got, _ = p.Applications(t.Context(), ids); len(got) != 30 {
			t.Errorf("%d, want all", len(got))
		}
	})
}

func TestWhatIsNoIDIsNotAskedFor(t *testing.T) {
	rm := newRM(t)
	p := openAt(t, kind{}, []*fakeRM{rm})
	ids := []string{
		"", "application", "application_1", "application_1_", "application__1", "application_1_1/../../x", "application_1_1?x", "application_1_-1", "job_1_1",
		"application_1_1_1", "Application_1_1", " application_1_1", "application_1_1\n", "application_" + strings.Repeat("1", 99) + "_1", "../cluster/info", "application_١_1",
	}
	got, err := p.Applications(t.Context(), ids)
	if err != nil || len(got) != len(ids) || slices.ContainsFunc(got, func(a providers.Application) bool { return a.Known || a.Ended }) {
		t.Errorf("%+v, %v", got, err)
	}
	if asked := rm.takeAsked(); len(asked) != 0 {
		t.Errorf("asked: %v", asked)
	}
}

func TestApplicationsOfAClusterWithoutActiveOne(t *testing.T) {
	rm := newRM(t)
	rm.state = "STANDBY"
	p := openAt(t, kind{}, []*fakeRM{rm})
	_, err := p.Applications(t.Context(), []string{"application_1_1"})
	wantUnavailable(t, err, true)
	rm.Close()
	_, err = p.Applications(t.Context(), []string{"application_1_1"})
	wantUnavailable(t, err, false)
}

// One unreadable application does not hide the others. A server that fails is not asked again in
// the same call.
func TestFailuresOfOneAndOfAll(t *testing.T) {
	rm := newRM(t)
	apps := &manyApps{asked: map[string]int{}, ended: map[string]bool{}}
	ids := manyIDs(40)
	for _, id := range ids {
		rm.does("/apps/"+id, apps.ServeHTTP)
	}
	rm.does("/apps/"+ids[3], answerWith(403, "not yours"))
	p := openAt(t, kind{}, []*fakeRM{rm})
	got, err := p.Applications(t.Context(), ids)
	wrong, ok := errors.AsType[*ServerError](err)
	if len(got) != 39 || !ok || wrong.Trouble != NotAllowed {
		t.Errorf("%d, %v", len(got), err)
	}
	rm.takeAsked()
	for _, id := range ids {
		rm.does("/apps/"+id, standby("http://rm2:8088"))
	}
	q := openAt(t, kind{}, []*fakeRM{rm})
	got, err = q.Applications(t.Context(), ids)
	wantUnavailable(t, err, false)
	if asked := rm.takeAsked(); len(got) != 0 || len(asked) > 1+2*atOnce {
		t.Errorf("%d answers, asked %v", len(got), asked)
	}
}

// The provider asks for unknown ids more and more rarely, and still returns an answer about them.
// An id that becomes known later counts like any other.
func TestIdsThatTheClusterDoesNotKnow(t *testing.T) {
	clock := newClock()
	rm := newRM(t)
	rm.does("/apps/application_1_9", answerWith(404, `{"RemoteException":{"exception":"NotFoundException"}}`, "Content-Type", "application/json"))
	p := openAt(t, kind{now: clock.Now}, []*fakeRM{rm}, "settle", "1m", "maxAge", "20s")
	asked := func(rounds int) int {
		t.Helper()
		n := 0
		for range rounds {
			got, err := p.Applications(t.Context(), []string{"application_1_9"})
			if err != nil || len(got) != 1 || got[0].ID != "application_1_9" || got[0].Ended {
				t.Fatalf("%+v, %v", got, err)
			}
			n += rm.takeAsked()["/apps/application_1_9"]
			clock.advance(5 * time.Second)
		}
		return n
	}
	if n := asked(12); n != 12 {
		t.Errorf("in the first minute it is asked for %d times; want 12", n)
	}
	if n := asked(12 * 60); n < 5 || n > 30 {
		t.Errorf("in the hour after it is asked for %d times", n)
	}
	if n := asked(12 * 60 * 10); n < 58 || n > 61 {
		t.Errorf("in the 10 hours after it is asked for %d times; want once in 10 minutes", n)
	}
	rm.does("/apps/application_1_9", answerJSON(`{"app":{"id":"application_1_9","state":"RUNNING","queue":"root.a"}}`))
	asked(12 * 11)
	if n := asked(12); n != 12 {
		t.Errorf("once it is known it is asked for %d times in a minute; want 12", n)
	}
}

// Invented ids, however many, do not displace known applications. Among new ids, the first ones are
// asked for first.
func TestMadeUpIdsLeaveTheOthersTheirTurn(t *testing.T) {
	clock := newClock()
	rm := newRM(t)
	apps := &manyApps{asked: map[string]int{}, ended: map[string]bool{}}
	ours := manyIDs(600)
	for _, id := range ours {
		rm.does("/apps/"+id, apps.ServeHTTP)
	}
	rm.does("*", answerWith(404, `{"RemoteException":{"exception":"NotFoundException"}}`, "Content-Type", "application/json"))
	rm.does("/info", answerJSON(`{"clusterInfo":{"id":1,"haState":"ACTIVE"}}`))
	p := openAt(t, kind{now: clock.Now}, []*fakeRM{rm}, "maxAge", "20s", "requestsPerMinute", "100000")
	if got, err := p.Applications(t.Context(), ours); err != nil || len(got) != 600 {
		t.Fatalf("%d, %v", len(got), err)
	}
	for round := range 8 {
		clock.advance(5 * time.Second)
		ids := make([]string, 0, 2000)
		for i := range 2000 { // different ids each time
			ids = append(ids, fmt.Sprintf("application_9_%d", round*2000+i))
		}
		late := fmt.Sprintf("application_8_%d", round)
		rm.does("/apps/"+late, apps.ServeHTTP)
		got, err := p.Applications(t.Context(), append(append([]string{late}, ids...), ours...))
		known := 0
		for _, a := range got {
			if a.Known {
				known++
			}
		}
		if err != nil || known != 601 {
			t.Errorf("%d of ours are known, %v; want all", known, err)
		}
	}
}
