package socket

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/agent/osuser"
	"github.com/bursar/bursar/internal/subuid"
	"github.com/bursar/bursar/providers/host"
)

// A directory of users that is away for a while must not make strangers of those who were known,
// nor for long of others.
func TestUsersKeepTheirNamesWhileNobodyCanBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers("h1", 0, []string{"ecm"})
		away := false
		p.uidOf = nobodysName
		p.lookup = func(_ context.Context, uid uint32) (string, error) {
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
			if c := p.Caller(t.Context(), uid); c.Actor.Users[0] != name || c.Trusted != trusted {
				t.Errorf("uid %d is %+v: want %s", uid, c.Actor, name)
			}
		}
		is(5, "alice", false)
		is(7, "7", false)
		away = true
		time.Sleep(knownFor + time.Second)
		is(5, "alice", false)
		is(6, "uid:6", false) // who has the digits for a name is not known
		away = false
		is(6, "uid:6", false)
		time.Sleep(unsureFor)
		is(6, "ecm", true)
		is(5, "alice", false)
	})
}

// However many requests of a user come while a directory of users does not answer, it is asked
// once: each time takes a process.
func TestOneLookAtATimeForAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers("h1", 0, nil)
		asked := 0 // by one goroutine at a time, or the test has failed
		p.lookup = func(context.Context, uint32) (string, error) {
			asked++
			time.Sleep(5 * time.Second)
			return "alice", nil
		}
		ask := func() {
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if c := p.Caller(t.Context(), 5); c.Actor.Users[0] != "alice" {
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
		time.Sleep(knownFor)
		began := time.Now()
		go p.Caller(t.Context(), 5)
		synctest.Wait()
		ask()
		if asked != 2 || time.Since(began) != 0 {
			t.Errorf("%d looks, and %v for who was known", asked, time.Since(began))
		}
		synctest.Wait()
		time.Sleep(5 * time.Second)
	})
}

// A connection that is taken must not wait for a directory of users: all others would wait with
// it.
func TestConnectionsAreTakenWithoutADirectoryOfUsers(t *testing.T) {
	p := newPeers("h1", 0, []string{"ecm"})
	p.lookup = func(context.Context, uint32) (string, error) {
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
	p.inFile = func(uid uint32) (string, error) {
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
	p := newPeers("h1", 0, []string{"ecm"})
	away := false
	p.lookup = func(_ context.Context, uid uint32) (string, error) {
		if uid == 6 && !away {
			return "ecm", nil
		}
		return strconv.Itoa(int(uid)), errors.New("away")
	}
	p.Caller(t.Context(), 6)
	away = true
	for uid := range uint32(3 * maxUsers) {
		p.Caller(t.Context(), 100_000+uid)
	}
	if c := p.Caller(t.Context(), 6); !c.Trusted || len(p.known) > maxUsers+1 {
		t.Errorf("%+v, with %d known", c.Actor, len(p.known))
	}
}

// nobodysName is a machine that has no account whose name is a number.
func nobodysName(context.Context, string) (uint32, error) { return 0, osuser.ErrNoUser }

// The digits of a uid may be the name of another account. Its user is never taken for that one: not
// if it has no account, not while the name service does not answer or the call has ended.
func TestDigitsOfAUIDAreNotAnothersName(t *testing.T) {
	p := newPeers("h1", 0, []string{"1004", "1005", "2000"})
	names := map[uint32]string{61004: "1004", 1005: "ecm", 2000: "2000"}
	away := false
	p.lookup = func(_ context.Context, uid uint32) (string, error) {
		switch {
		case away:
			return "", errors.New("timed out")
		case names[uid] == "":
			return "", osuser.ErrNoUser
		}
		return names[uid], nil
	}
	p.inFile = func(uint32) (string, error) { return "", osuser.ErrNoUser }
	p.uidOf = func(_ context.Context, name string) (uint32, error) {
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
		if c := p.Caller(t.Context(), uid); c.Actor.Users[0] != want.name || c.Trusted != want.trusted || c.Actor.Name != want.name+"@h1" {
			t.Errorf("uid %d is %+v: want %+v", uid, c.Actor, want)
		}
		if c := p.Caller(t.Context(), uid); uid == 1004 && c.account.ID != "user/1004" {
			t.Errorf("it counts on %+v", c.account)
		}
	}
	away = true
	p.Trust([]string{"1004"})
	for uid, want := range map[uint32]string{61004: "uid:61004", 1004: "uid:1004"} {
		if c := p.Caller(t.Context(), uid); c.Actor.Users[0] != want || c.Trusted {
			t.Errorf("uid %d while nobody can be asked: %+v", uid, c.Actor)
		}
		if c := p.withoutLookup(uid + 1); c.Actor.Users[0] != "uid:"+strconv.Itoa(int(uid+1)) {
			t.Errorf("uid %d without a lookup: %+v", uid+1, c.Actor)
		}
	}
}

// Subordinate ids of one user do not use up the lookups of all users.
func TestSubordinateIDsLeaveLookupsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers("h1", 0, nil)
		p.uidOf = nobodysName
		p.inFile = func(uint32) (string, error) { return "", osuser.ErrNoUser }
		p.charged = func(uid uint32, _ bool, _ subuid.Names) (string, bool) {
			if uid < 100000 {
				return "", false
			}
			return "mallory", true
		}
		asked := 0
		p.lookup = func(_ context.Context, uid uint32) (string, error) {
			if asked++; uid < 100000 {
				return "alice", nil
			}
			return "", osuser.ErrNoUser
		}
		for uid := uint32(100000); uid < 100500; uid++ {
			if c := p.Caller(t.Context(), uid); c.Actor.Owner != "mallory" || c.account.ID != "user/mallory" {
				t.Fatalf("%+v", c)
			}
		}
		if most := lookupBurst / ownerPart; asked != most {
			t.Errorf("%d lookups: want %d", asked, most)
		}
		if c := p.Caller(t.Context(), 1000); c.Actor.Name != "alice@h1" {
			t.Errorf("another user is %s", c.Actor.Name)
		}
	})
}
