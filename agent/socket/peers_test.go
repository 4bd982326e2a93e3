package socket

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/localuser"
	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/internal/subuid"
	"github.com/bursar/bursar/providers/host"
)

// An outage of the user directory must not make strangers of known users, and of others only for a
// short time.
func TestUsersKeepTheirNamesWhileNobodyCanBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := peersOf([]string{"ecm"})
		away := false
		p.users.UIDOf = nobodysName
		p.users.NameOf = func(_ context.Context, uid uint32) (string, error) {
			if away {
				return "", errors.New("timed out")
			}
			if uid == 7 {
				return "", osuser.ErrNoUser
			}
			return map[uint32]string{5: "alice", 6: "ecm"}[uid], nil
		}
		is := func(uid uint32, name string, trusted bool) {
			t.Helper()
			if c := callerOf(t, p, uid); c.Actor.Users[0] != name || c.Trusted != trusted {
				t.Errorf("uid %d is %+v: want %s", uid, c.Actor, name)
			}
		}
		is(5, "alice", false)
		is(7, "7", false)
		away = true
		time.Sleep(localuser.KnownFor + time.Second)
		is(5, "alice", false)
		is(6, "uid:6", false) // who has the digits for a name is not known
		away = false
		is(6, "uid:6", false)
		time.Sleep(localuser.UnsureFor)
		is(6, "ecm", true)
		is(5, "alice", false)
	})
}

// While a user directory does not answer, it gets one lookup for all requests of a user: each
// lookup takes a process.
func TestOneLookAtATimeForAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := peersOf(nil)
		asked := 0 // by one goroutine at a time, or the test has failed
		p.users.NameOf = func(context.Context, uint32) (string, error) {
			asked++
			time.Sleep(5 * time.Second)
			return "alice", nil
		}
		ask := func() {
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if c := callerOf(t, p, 5); c.Actor.Users[0] != "alice" {
						t.Errorf("%+v", c.Actor)
					}
				})
			}
			all.Wait()
		}
		ask()
		if asked != 1 {
			t.Errorf("%d looks for 100 requests", asked)
		}
		time.Sleep(localuser.KnownFor)
		began := time.Now()
		go callerOf(t, p, 5)
		synctest.Wait()
		ask()
		if asked != 2 || time.Since(began) != 0 {
			t.Errorf("%d looks, and %v for who was known", asked, time.Since(began))
		}
		synctest.Wait()
		time.Sleep(5 * time.Second)
	})
}

// Accepting a connection must not wait for a user directory: all others would wait with it.
func TestConnectionsAreTakenWithoutADirectoryOfUsers(t *testing.T) {
	p := peersOf([]string{"ecm"})
	p.users.NameOf = func(context.Context, uint32) (string, error) {
		t.Error("it was asked")
		return "", errors.New("away")
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	meter, err := host.NewMeter(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(nil)
	s.Peers, s.options.View = p, meter.View
	l := s.ofPeers(socket)
	defer l.Close()
	client, err := net.Dial("unix", socket.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if taken, _ := conn.(*peerConn); taken == nil || taken.peer.Uid != uint32(os.Geteuid()) {
		t.Errorf("%+v", conn)
	}
	p.users.NameOfFile = func(uid uint32) (string, error) {
		if uid == 6 {
			return "ecm", nil
		}
		return "", osuser.ErrNoUser
	}
	if c := p.withoutLookup(6); !c.Trusted {
		t.Error("who is trusted by a name of the file is not known at once")
	}
	if c := p.withoutLookup(7); c.Trusted || c.Actor.Users[0] != "uid:7" {
		t.Errorf("%+v", c.Actor)
	}
}

func TestStrangersDoNotMakeTrustedUsersForgotten(t *testing.T) {
	p := peersOf([]string{"ecm"})
	away := false
	p.users.NameOf = func(_ context.Context, uid uint32) (string, error) {
		if uid == 6 && !away {
			return "ecm", nil
		}
		return strconv.Itoa(int(uid)), errors.New("away")
	}
	callerOf(t, p, 6)
	away = true
	for uid := range uint32(3 * localuser.MostUsers) {
		callerOf(t, p, 100_000+uid)
	}
	if c := callerOf(t, p, 6); !c.Trusted || len(p.callers) > localuser.MostUsers+1 {
		t.Errorf("%+v, with %d known", c.Actor, len(p.callers))
	}
}

// nobodysName is a machine that has no account whose name is a number.
func nobodysName(context.Context, string) (uint32, error) { return 0, osuser.ErrNoUser }

// The digits of a uid may be the name of another account. The uid's user must never count as that
// account: not if it has no account, not while the name service does not answer, and not after the
// end of the call.
func TestDigitsOfAUIDAreNotAnothersName(t *testing.T) {
	p := peersOf([]string{"1004", "1005", "2000"})
	names := map[uint32]string{61004: "1004", 1005: "ecm", 2000: "2000"}
	away := false
	p.users.NameOf = func(_ context.Context, uid uint32) (string, error) {
		switch {
		case away:
			return "", errors.New("timed out")
		case names[uid] == "":
			return "", osuser.ErrNoUser
		}
		return names[uid], nil
	}
	p.users.NameOfFile = func(uint32) (string, error) { return "", osuser.ErrNoUser }
	p.users.UIDOf = func(_ context.Context, name string) (uint32, error) {
		for uid, has := range names {
			if has == name {
				return uid, nil
			}
		}
		if away {
			return 0, errors.New("timed out")
		}
		return 0, osuser.ErrNoUser
	}
	for uid, want := range map[uint32]struct {
		name    string
		trusted bool
	}{
		61004:  {"1004", true}, // the account that is trusted
		1004:   {"uid:1004", false},
		1005:   {"ecm", true}, // trusted by its uid, which no account has for a name
		2000:   {"2000", true},
		100000: {"100000", false},
	} {
		if c := callerOf(t, p, uid); c.Actor.Users[0] != want.name || c.Trusted != want.trusted || c.Actor.Name != want.name+"@h1" {
			t.Errorf("uid %d is %+v: want %+v", uid, c.Actor, want)
		}
		if c := callerOf(t, p, uid); uid == 1004 && c.account.ID != "user/1004" {
			t.Errorf("it counts on %+v", c.account)
		}
	}
	away = true
	p.Trust([]string{"1004"})
	for uid, want := range map[uint32]string{61004: "uid:61004", 1004: "uid:1004"} {
		if c := callerOf(t, p, uid); c.Actor.Users[0] != want || c.Trusted {
			t.Errorf("uid %d while nobody can be asked: %+v", uid, c.Actor)
		}
		if c := p.withoutLookup(uid + 1); c.Actor.Users[0] != "uid:"+strconv.Itoa(int(uid+1)) {
			t.Errorf("uid %d without a lookup: %+v", uid+1, c.Actor)
		}
	}
}

// peersOf is newPeers on a machine without ranges of subordinate ids.
func peersOf(trusted []string) *Peers {
	p := newPeers("h1", 0, trusted)
	p.users.Charged = func(uint32, bool, subuid.Names) (string, bool, error) { return "", false, nil }
	return p
}

// callerOf returns a caller with a known user.
func callerOf(t *testing.T, p *Peers, uid uint32) *Caller {
	t.Helper()
	c, err := p.Caller(t.Context(), uid)
	if err != nil {
		t.Errorf("uid %d: %v", uid, err)
	}
	return c
}

// Subordinate ids of one user do not use up the lookups of all users. Nobody is charged for an id
// that was not looked up.
func TestSubordinateIDsLeaveLookupsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := peersOf(nil)
		p.users.NameOfFile = func(uint32) (string, error) { return "", osuser.ErrNoUser }
		p.users.Charged = func(uid uint32, _ bool, _ subuid.Names) (string, bool, error) {
			if uid < 100000 {
				return "", false, nil
			}
			return "mallory", true, nil
		}
		asked := 0
		p.users.NameOf = func(_ context.Context, uid uint32) (string, error) {
			if asked++; uid < 100000 {
				return "alice", nil
			}
			return "", osuser.ErrNoUser
		}
		p.users.UIDOf = func(context.Context, string) (uint32, error) {
			asked++
			return 0, osuser.ErrNoUser
		}
		for uid := uint32(100000); uid < 100500; uid++ {
			c, err := p.Caller(t.Context(), uid)
			if err == nil && (c.Actor.Owner != "mallory" || c.account.ID != "user/mallory") ||
				err != nil && (c.Actor.Owner != "" || c.Trusted || c.account.ID != "user/range:mallory") {
				t.Fatalf("%+v, %v", c, err)
			}
		}
		if most := localuser.Burst / 2; asked != most {
			t.Errorf("%d lookups: want %d", asked, most)
		}
		if c := callerOf(t, p, 1000); c.Actor.Name != "alice@h1" {
			t.Errorf("another user is %s", c.Actor.Name)
		}
	})
}

// If the directory cannot say whether a uid is an account, a request of it is refused and may be
// repeated: neither the owner of its range nor the uid is charged for its engines.
func TestARequestOfAnUnknownUserInARangeIsRefused(t *testing.T) {
	served := 0
	s := newServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	away := true
	s.Peers.users.NameOf = func(context.Context, uint32) (string, error) {
		if away {
			return "", errors.New("timed out")
		}
		return "daemon", nil
	}
	s.Peers.users.Charged = func(_ uint32, hasName bool, _ subuid.Names) (string, bool, error) {
		if hasName {
			return "", false, nil
		}
		return "alice", true, nil
	}
	ask := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/bursar.v1.AllocationService/Allocate", nil)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.HTTP(true).Handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, &unix.Ucred{Uid: 100005})))
		return w
	}
	if w := ask(); served != 0 || w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "uid 100005 is in a range of subordinate ids of alice") ||
		!strings.Contains(w.Body.String(), "try again") {
		t.Errorf("served %d, %d: %s", served, w.Code, w.Body)
	}
	away = false
	s.Peers.users.Forget()
	if w := ask(); served != 1 || w.Code != http.StatusOK {
		t.Errorf("known, served %d, %d: %s", served, w.Code, w.Body)
	}
}
