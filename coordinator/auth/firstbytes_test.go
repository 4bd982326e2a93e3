package auth

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/test/pipes"
)

// bareServer has the limits of a server, without services. A header names the caller; calls of
// /denied are refused.
type bareServer struct {
	limits *Limits
	pipes  *pipes.Listener
}

func newBareServer(t *testing.T) *bareServer {
	t.Helper()
	s := &bareServer{NewLimits(usualLimits()), pipes.Listen()}
	s.limits.work = newWorkSlots(1)
	s.limits.next = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{
		ConnContext: s.limits.ConnContext, ConnState: s.limits.Connections.State,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer s.limits.Connections.Begin(r.Context())()
			actor := identity.Actor{Name: r.Header.Get("Who")}
			c := &Caller{Actor: actor, Maker: actor, Peer: r.RemoteAddr}
			c.account = accountOf(c)
			r = r.WithContext(WithCaller(r.Context(), c))
			if r.URL.Path == "/denied" {
				s.limits.serveDenied(w, r, c, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
				return
			}
			s.limits.ServeHTTP(w, r)
		}),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(s.limits.Connections.Listen(s.pipes)) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s
}

// connect returns a function that sends a request with a long header. It reports whether the header
// is read completely.
func (s *bareServer) connect(t *testing.T) (send func(path, who string) (read *bool)) {
	t.Helper()
	here := s.pipes.Dial()
	go func() { _, _ = io.Copy(io.Discard, here) }()
	t.Cleanup(func() { _ = here.Close() })
	return func(path, who string) *bool {
		read := new(bool)
		go func() {
			_, err := io.WriteString(here, "POST "+path+" HTTP/1.1\r\nHost: x\r\nWho: "+who+"\r\nContent-Length: 0\r\nX: "+strings.Repeat("x", 8<<10)+"\r\n\r\n")
			*read = err == nil
		}()
		synctest.Wait()
		return read
	}
}

// The header of a caller's next request is read and parsed only in its turn among that caller's
// requests. That holds for refused calls as well.
func TestACallersNextRequestIsReadInItsTurn(t *testing.T) {
	for _, path := range []string{"/", "/denied"} {
		synctest.Test(t, func(t *testing.T) {
			s := newBareServer(t)
			mallory, alice := s.connect(t), s.connect(t)
			if !*mallory(path, "mallory") || !*alice(path, "alice") {
				t.Fatal("the first ones are not read")
			}
			busy := &workSlot{work: s.limits.work, caller: admission.Caller{ID: "caller/mallory"}}
			if err := busy.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			waits := mallory(path, "mallory")
			if *waits {
				t.Errorf("%s: mallory's next request is read while another one of hers has the turn", path)
			}
			if !*alice(path, "alice") {
				t.Errorf("%s: alice waits for mallory", path)
			}
			busy.release()
			if synctest.Wait(); !*waits {
				t.Errorf("%s: mallory's request is not read when she has a turn", path)
			}
			if s.limits.work.callers["caller/mallory"] != nil {
				t.Errorf("%s: an answered request keeps its turn", path)
			}
		})
	}
}

// The next request may be another caller's, on a shared connection. So its first bytes do not wait
// long for the previous caller.
func TestTheFirstBytesOfARequestWaitForAMomentOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBareServer(t)
		shared := s.connect(t)
		if !*shared("/", "mallory") {
			t.Fatal("the first one is not read")
		}
		if err := s.limits.work.enter(t.Context(), admission.Caller{ID: "caller/mallory"}); err != nil { // and never leaves
			t.Fatal(err)
		}
		waits := shared("/", "alice")
		time.Sleep(beginTime)
		if synctest.Wait(); !*waits {
			t.Error("alice's request is not read")
		}
	})
}

// Unknown callers do not wait for one another: they may share only an address. The first request on
// a connection does not wait, either.
func TestCallersWhoAreNotKnownDoNotWaitForOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBareServer(t)
		nobody := s.connect(t)
		for range 2 {
			busy := &workSlot{work: s.limits.work, caller: admission.Caller{ID: "network/pipe"}}
			if err := busy.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !*nobody("/denied", "") || !*s.connect(t)("/denied", "") {
				t.Error("a request is not read")
			}
			busy.release()
		}
	})
}

// On a connection with requests of several callers, none waits for another's turn.
func TestAConnectionOfSeveralCallersWaitsForNobodysTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBareServer(t)
		gateway := s.connect(t)
		for _, who := range []string{"mallory", "alice"} {
			if !*gateway("/", who) {
				t.Fatalf("%s's request is not read", who)
			}
		}
		for _, who := range []string{"mallory", "alice"} {
			busy := &workSlot{work: s.limits.work, caller: admission.Caller{ID: "caller/" + who}}
			if err := busy.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer busy.release()
		}
		if !*gateway("/", "carol") {
			t.Error("carol waits for somebody else's turn")
		}
	})
}

// If two goroutines of a connection enter at the same time, it has one turn, and gives it back.
func TestAConnectionHasOneTurnAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkSlots(4)
		slot := &workSlot{work: w, caller: admission.Caller{ID: "alice"}}
		blocked := make([]*workSlot, 4)
		for i := range blocked {
			blocked[i] = &workSlot{work: w, caller: slot.caller}
			blocked[i].Begin()
		}
		for range 2 {
			go slot.Begin()
		}
		synctest.Wait()
		for _, other := range blocked {
			other.End()
		}
		synctest.Wait()
		if got := w.callers["alice"].running; got != 1 {
			t.Errorf("%d turns are taken; want 1", got)
		}
		slot.End()
		if len(w.callers) != 0 {
			t.Errorf("%d callers are left", len(w.callers))
		}
	})
}
