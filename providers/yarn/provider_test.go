package yarn

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/providers"
)

func TestHealthyClusterIsAskedOnceAndNobodyElse(t *testing.T) {
	clock := newClock()
	first, second := newRM(t), newRM(t)
	first.state = "STANDBY"
	p := openAt(t, kind{now: clock.Now}, []*fakeRM{first, second})
	s := snapshot(t, p)
	if s.Server != second.URL || s.Incarnation != second.URL+" 1700000000000" || s.Untrusted != "" || len(s.Queues) != 2 {
		t.Errorf("%+v", s)
	}
	if got := paths(first.takeAsked()) + ", " + paths(second.takeAsked()); got != "/info×1, /info×1 /scheduler×1" {
		t.Errorf("the first time: %s", got)
	}
	for range 11 {
		clock.advance(5 * time.Second)
		snapshot(t, p)
	}
	if got := paths(first.takeAsked()) + ", " + paths(second.takeAsked()); got != ", /scheduler×11" {
		t.Errorf("from then on: %s", got)
	}
	clock.advance(5 * time.Second)
	snapshot(t, p)
	if got := paths(first.takeAsked()) + ", " + paths(second.takeAsked()); got != ", /info×1 /scheduler×1" {
		t.Errorf("after a minute: %s", got)
	}
	if accept := second.request("/scheduler").Header.Get("Accept"); accept != "application/json" {
		t.Errorf("Accept: %q", accept)
	}
}

// For each possible response of a ResourceManager that is standby, fails, or is something else: if
// another server is active, the provider finds it. If there is none, the error contains the
// response.
func TestWhateverTheActiveOneSaysTheOtherIsFound(t *testing.T) {
	html := []string{"Content-Type", "text/html;charset=iso-8859-1"}
	text := []string{"Content-Type", "text/plain;charset=utf-8"}
	for name, row := range map[string]struct {
		answer  http.HandlerFunc
		trouble Trouble
		said    string // part of the error
	}{
		"standby, 2.7.0": {
			answerWith(200, "This is standby RM. Redirecting to the current active RM: http://rm2:8088/ws/v1/cluster/scheduler\n", append(text, "Refresh", "3; url=http://rm2:8088/ws/v1/cluster/scheduler")...),
			NotInCharge, "This is standby RM",
		},
		"standby, 2.7.0, without a type": {answerWith(200, "This is standby RM. Redirecting to the current active RM: null/ws/v1/cluster/scheduler"), NotInCharge, "This is standby RM"},
		"standby, 2.7.1":                 {standby("http://active.invalid:8088/ws/v1/cluster/scheduler"), NotInCharge, "This is standby RM"},
		"a redirection without a text":   {answerWith(307, "", "Location", "http://rm2.internal:8088/ws/v1/cluster/scheduler?user.name=alice"), NotInCharge, "http://rm2.internal:8088/ws/v1/cluster/scheduler"},
		"none active, it tries again": {
			answerWith(307, "Can not find any active RM. Will retry in next 6 seconds.\nHA Zookeeper Connection State: CONNECTED\n", append(text, "Refresh", "6;url=http://rm1:8088/ws/v1/cluster/scheduler?nextRefreshInterval=12")...),
			NotInCharge, "Can not find any active RM",
		},
		"none active":          {answerWith(200, "There is no active RM right now.\nHA Zookeeper Connection State: Could not find leader elector.", text...), NotInCharge, "There is no active RM"},
		"none active, as HTML": {answerWith(200, "<html><body>There is no active RM right now.</body></html>", html...), NotInCharge, "There is no active RM"},
		"an exception": {
			answerWith(404, `{"RemoteException":{"exception":"NotFoundException","message":"java.lang.Exception: Unknown scheduler configured","javaClassName":"org.apache.hadoop.yarn.webapp.NotFoundException"}}`, "Content-Type", "application/json"),
			NoSuch, "NotFoundException: java.lang.Exception: Unknown scheduler configured",
		},
		"a null pointer while it becomes active": {
			answerWith(503, `{"RemoteException":{"exception":"NullPointerException","message":"null","javaClassName":"java.lang.NullPointerException"}}`, "Content-Type", "application/json"),
			Failing, "(HTTP status 503): \"NullPointerException: null\"",
		},
		"an exception with status 200":   {answerJSON(`{"RemoteException":{"exception":"StandbyException","message":"not now"}}`), Failing, "not now"},
		"who are you":                    {answerWith(401, "<html><head><title>Error 401</title><style>x</style></head><body><h2>HTTP ERROR 401</h2>Authentication required</body></html>", append(html, "WWW-Authenticate", "Negotiate")...), NotAllowed, `it wants Negotiate: see the setting auth: "HTTP ERROR 401 Authentication required"`},
		"a bad ticket":                   {answerWith(403, "<html><body>GSSException: Failure unspecified at GSS-API level (Mechanism level: Checksum failed)</body></html>", html...), NotAllowed, "Checksum failed"},
		"a log-in page":                  {answerWith(302, "", "Location", "https://knox/gateway/knoxsso/login?originalUrl=secret"), Senseless, "https://knox/gateway/knoxsso/login, which is not followed"},
		"another path":                   {answerWith(404, "<html><body>Not Found</body></html>", html...), Senseless, "see the setting basePath"},
		"a page in place of an answer":   {answerWith(200, "<html><body>Welcome</body></html>", html...), Senseless, `not JSON: "Welcome"`},
		"XML":                            {answerWith(200, `<?xml version="1.0"?><scheduler><schedulerInfo/></scheduler>`, "Content-Type", "application/xml"), Senseless, "it answers in XML: want JSON: ask with the header Accept"},
		"another scheduler":              {answerJSON(strings.Replace(fairAnswer(1), "fairScheduler", "fooScheduler", 1)), Senseless, `a scheduler of type "fooScheduler"`},
		"JSON of another type":           {answerWith(200, fairAnswer(1), "Content-Type", "text/json"), Senseless, "text/json"},
		"no JSON for all that":           {answerJSON("There it is."), Senseless, "There it is."},
		"JSON of something else":         {answerJSON(`{"beans":[]}`), Senseless, ""},
		"JSON that breaks off":           {answerJSON(fairAnswer(1)[:200]), Senseless, ""},
		"a connection that breaks off":   {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Unreachable, ""},
		"an answer that breaks off":      {breaksOff, Unreachable, "unexpected EOF"},
		"a compressed answer":            {answerWith(200, "\x1f\x8b", "Content-Type", "application/json", "Content-Encoding", "gzip"), Senseless, "compressed"},
		"an answer that is too long":     {neverEnds, Senseless, "longer than 65536 bytes"},
		"an answer that says how long":   {answerWith(200, strings.Repeat(" ", 70_000), "Content-Type", "application/json", "Content-Length", "70000"), Senseless, "longer than 65536 bytes"},
		"heads that do not end":          {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<17)) }, Unreachable, ""},
		"an answer to nothing that asks": {answerWith(204, ""), Senseless, "(HTTP status 204)"},
	} {
		t.Run(name, func(t *testing.T) {
			rm, other := newRM(t), newRM(t)
			other.state = "STANDBY"
			p := openAt(t, kind{}, []*fakeRM{rm, other}, "maxBytes", "64KiB")
			if s := snapshot(t, p); s.Server != rm.URL {
				t.Fatalf("from %s", s.Server)
			}
			rm.change(func() { rm.state, rm.instead["/scheduler"] = "STANDBY", row.answer })
			other.change(func() { other.state, other.id = "ACTIVE", other.id+1 })
			if s := snapshot(t, p); s.Server != other.URL || s.Incarnation != other.URL+" 1700000000001" {
				t.Errorf("from %s, %s; want the other", s.Server, s.Incarnation)
			}

			rm.change(func() { rm.state = "ACTIVE" })
			alone := openAt(t, kind{}, []*fakeRM{rm}, "maxBytes", "64KiB")
			_, err := alone.Snapshot(t.Context())
			got := troubles(t, err)[rm.URL]
			if got == nil || got.Trouble != row.trouble || !strings.Contains(err.Error(), row.said) || !strings.Contains(err.Error(), rm.URL) {
				t.Errorf("alone: %v\nwant the trouble %q and %q", err, row.trouble, row.said)
			}
			if row.trouble != Senseless {
				wantUnavailable(t, err, row.trouble == NotInCharge)
			} else if unavailable, _ := providers.Unavailable(err); unavailable {
				t.Errorf("%v: it is there, and makes no sense", err)
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "user.name") || strings.ContainsAny(err.Error(), "\n\x1f") {
				t.Errorf("shown: %q", err)
			}
		})
	}
}

func breaksOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "10000")
	_, _ = w.Write([]byte(fairAnswer(1)[:300]))
	flush(w)
	panic(http.ErrAbortHandler)
}

// flush sends the output so far.
func flush(w http.ResponseWriter) {
	if err := http.NewResponseController(w).Flush(); err != nil {
		panic(err)
	}
}

// neverEnds sends spaces, which JSON ignores, while the client reads.
func neverEnds(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"scheduler":`))
	for r.Context().Err() == nil {
		if _, err := w.Write([]byte(strings.Repeat(" ", 4096))); err != nil {
			return
		}
	}
}

func TestAnswerOfJustTheBoundIsRead(t *testing.T) {
	rm := newRM(t)
	p := openAt(t, kind{}, []*fakeRM{rm}, "maxBytes", "64KiB")
	body := fairAnswer(1024)
	for length, want := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
		rm.does("/scheduler", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(body))
			flush(w) // so that no length is sent
			_, _ = w.Write([]byte(strings.Repeat(" ", length-len(body))))
		})
		if _, err := p.Snapshot(t.Context()); (err == nil) != want {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

func TestNoneActive(t *testing.T) {
	for name, c := range map[string]struct {
		first, second func(*fakeRM)
		none          bool
	}{
		"both stand by":                        {standsBy, standsBy, true},
		"one stands by, one is gone":           {standsBy, (*fakeRM).Close, true},
		"both are gone":                        {(*fakeRM).Close, (*fakeRM).Close, false},
		"one stands by, one becomes active":    {standsBy, func(rm *fakeRM) { rm.does("/scheduler", answerWith(503, "")) }, false},
		"one stands by, one claims and denies": {standsBy, func(rm *fakeRM) { rm.does("/scheduler", standby("http://rm1:8088")) }, true},
		"one stands by, one asks who we are":   {standsBy, func(rm *fakeRM) { rm.does("*", answerWith(401, "", "WWW-Authenticate", "Negotiate")) }, false},
		"one begins":                           {func(rm *fakeRM) { rm.state = "INITIALIZING" }, (*fakeRM).Close, true},
		"one is gone, one has troubles":        {(*fakeRM).Close, func(rm *fakeRM) { rm.does("*", answerWith(503, "")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := newRM(t), newRM(t)
			c.first(first)
			c.second(second)
			_, err := openAt(t, kind{}, []*fakeRM{first, second}).Snapshot(t.Context())
			wantUnavailable(t, err, c.none)
			for _, rm := range []*fakeRM{first, second} {
				if !strings.Contains(fmt.Sprint(err), rm.URL) {
					t.Errorf("%v: nothing of %s", err, rm.URL)
				}
			}
		})
	}
}

func standsBy(rm *fakeRM) { rm.state = "STANDBY" }

func TestTwoClaimToBeActive(t *testing.T) {
	older, newer := newRM(t), newRM(t)
	newer.id++
	if s := snapshot(t, openAt(t, kind{}, []*fakeRM{older, newer})); s.Server != newer.URL {
		t.Errorf("from %s, want the one that was started last", s.Server)
	}
	newer.does("/scheduler", answerWith(200, "Welcome", "Content-Type", "text/plain"))
	p := openAt(t, kind{}, []*fakeRM{older, newer})
	if s := snapshot(t, p); s.Server != older.URL {
		t.Errorf("from %s, want the one that answers", s.Server)
	}
	newer.takeAsked()
	if snapshot(t, p); len(newer.takeAsked()) != 0 {
		t.Error("the other is asked although one is active")
	}
}

func TestFirstIsDeadFromTheStart(t *testing.T) {
	dead, alive := newRM(t), newRM(t)
	dead.Close()
	p := openAt(t, kind{}, []*fakeRM{dead, alive})
	for range 3 {
		if s := snapshot(t, p); s.Server != alive.URL {
			t.Errorf("from %s", s.Server)
		}
	}
	if got := paths(alive.takeAsked()); got != "/info×1 /scheduler×3" {
		t.Errorf("asked: %s", got)
	}
}

func TestItGoesToAndFro(t *testing.T) {
	clock := newClock()
	both := []*fakeRM{newRM(t), newRM(t)}
	both[1].state = "STANDBY"
	both[1].id = 1800000000000
	p := openAt(t, kind{now: clock.Now}, both)
	for i := range 10 {
		active, other := both[i%2], both[(i+1)%2]
		other.change(func() { other.state = "STANDBY" })
		active.change(func() { active.state = "ACTIVE" })
		if s := snapshot(t, p); s.Server != active.URL || !strings.HasPrefix(s.Incarnation, active.URL) || s.Untrusted != "" {
			t.Errorf("turn %d: %+v", i, s)
		}
		clock.advance(5 * time.Second)
	}
}

// In a synctest bubble: an unresponsive server costs no more time than the settings allow.
func TestSlowOnesAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newNetwork()
		one, two := web.start(t, "rm1:8088"), web.start(t, "rm2:8088")
		two.state = "STANDBY"
		p := openAt(t, kind{dial: web.dial}, []*fakeRM{one, two})
		begin := time.Now()
		snapshot(t, p)
		took := func(want time.Duration) {
			t.Helper()
			if got := time.Since(begin); got != want {
				t.Errorf("took %v, want %v", got, want)
			}
			begin = time.Now()
		}
		took(0)

		// The active server hangs: it gets half of the time. In the other half the provider finds
		// the new active server.
		one.does("*", hang)
		two.change(func() { two.state = "ACTIVE" })
		begin = time.Now()
		if s := snapshot(t, p); s.Server != two.URL {
			t.Errorf("from %s", s.Server)
		}
		took(5*time.Second + 2*time.Second)
		snapshot(t, p)
		took(0)

		// It trickles: every byte comes in time, but not the whole answer.
		one.does("*", nil)
		one.change(func() { one.state = "STANDBY" })
		two.does("/scheduler", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for i, body := 0, fairAnswer(1024); r.Context().Err() == nil; i++ {
				_, _ = w.Write([]byte(body[i : i+1]))
				flush(w)
				time.Sleep(time.Second)
			}
		})
		_, err := p.Snapshot(t.Context())
		wantUnavailable(t, err, false)
		took(10 * time.Second)

		// A machine that is off refuses nothing: the provider gives up the connection after 2 s.
		two.does("/scheduler", nil)
		snapshot(t, p)
		two.CloseClientConnections()
		web.lose("rm2:8088")
		one.change(func() { one.state = "ACTIVE" })
		begin = time.Now()
		if s := snapshot(t, p); s.Server != one.URL {
			t.Errorf("from %s", s.Server)
		}
		took(4 * time.Second) // 2 s to connect, 2 s to find the other one

		// Two servers claim to be active and the newer one hangs: the older one gets its share of
		// the time.
		two.Close()
		three := web.start(t, "rm2:8088")
		web.mu.Lock()
		delete(web.lost, "rm2:8088")
		web.mu.Unlock()
		three.change(func() { three.id++ })
		three.does("/scheduler", hang)
		again := openAt(t, kind{dial: web.dial}, []*fakeRM{one, three})
		begin = time.Now()
		if s := snapshot(t, again); s.Server != one.URL {
			t.Errorf("from %s", s.Server)
		}
		took(5 * time.Second)
	})
}

func TestReadingEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newNetwork()
		rm := web.start(t, "rm1:8088")
		p := openAt(t, kind{dial: web.dial}, []*fakeRM{rm})
		snapshot(t, p)
		rm.takeAsked()
		rm.does("/scheduler", hang)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		begin := time.Now()
		_, err := p.Snapshot(ctx)
		cancel()
		if wantUnavailable(t, err, false); time.Since(begin) != time.Second {
			t.Errorf("after %v", time.Since(begin))
		}
		ctx, cancel = context.WithCancel(t.Context())
		rm.does("/scheduler", nil)
		snapshot(t, p)
		rm.takeAsked()
		rm.does("/scheduler", hang)
		go func() {
			time.Sleep(time.Second)
			cancel()
		}()
		_, err = p.Snapshot(ctx)
		wantUnavailable(t, err, false)
		rm.does("/scheduler", nil)
		snapshot(t, p)
		// A caller that gave up says nothing about the server: the provider does not search for
		// another. It opened a new connection, so it asks for the state.
		if got := paths(rm.takeAsked()); got != "/info×1 /scheduler×2" {
			t.Errorf("asked: %s", got)
		}
	})
}

func TestServers(t *testing.T) {
	active, other, old, dead, begins := newRM(t), newRM(t), newRM(t), newRM(t), newRM(t)
	other.state, begins.state = "STANDBY", "INITIALIZING"
	old.does("*", standby("http://rm1:8088/ws/v1/cluster/info"))
	dead.Close()
	all := []*fakeRM{active, other, old, dead, begins}
	got := openAt(t, kind{}, all).Servers(t.Context())
	if len(got) != len(all) {
		t.Fatalf("%d servers", len(got))
	}
	for i, want := range []struct {
		role, version string
		wrong         bool
	}{{"active", "3.4.1", false}, {"standby", "3.4.1", false}, {"standby", "", false}, {"", "", true}, {"", "3.4.1", true}} {
		s := got[i]
		if s.Address != all[i].URL || s.Role != want.role || s.Version != want.version || (s.Err != nil) != want.wrong || s.Took <= 0 {
			t.Errorf("%d: %+v, want %+v", i, s, want)
		}
	}
}

func TestAFailureSaysTheSameEachTime(t *testing.T) {
	rm := newRM(t)
	reset := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if tcp, ok := conn.(*net.TCPConn); !ok || tcp.SetLinger(0) != nil {
			t.Errorf("%T", conn)
		}
	}
	rm.does("*", reset)
	rm.does("/info", reset)
	p := openAt(t, kind{now: time.Now}, []*fakeRM{rm})
	_, first := p.Snapshot(t.Context())
	_, second := p.Snapshot(t.Context())
	if first == nil || second == nil || first.Error() != second.Error() {
		t.Errorf("%v\n%v", first, second)
	}
}
