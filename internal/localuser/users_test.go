package localuser

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/internal/subuid"
)

// machine is one with accounts in a directory only, and with a range of mallory's from 100000 on.
type machine struct {
	accounts map[uint32]string
	away     bool
	asked    int
}

var errAway = errors.New("timed out")

func (m *machine) users() *Users {
	return New(Source{
		NameOf: func(_ context.Context, uid uint32) (string, error) {
			m.asked++
			switch {
			case m.away:
				return "", errAway
			case m.accounts[uid] == "":
				return "", osuser.ErrNoUser
			}
			return m.accounts[uid], nil
		},
		NameOfFile: func(uint32) (string, error) { return "", osuser.ErrNoUser },
		UIDOf: func(_ context.Context, name string) (uint32, error) {
			m.asked++
			for uid, has := range m.accounts {
				if has == name {
					return uid, nil
				}
			}
			if m.away {
				return 0, errAway
			}
			return 0, osuser.ErrNoUser
		},
		Charged: func(uid uint32, hasName bool, _ subuid.Names) (string, bool, error) {
			if uid < 100000 || hasName {
				return "", false, nil
			}
			return "mallory", true, nil
		},
	}, Options{})
}

// realUID is an account of a directory whose uid lies in a range of mallory's.
const realUID = 150000

// flood has other ids of the range looked up until no more may be.
func flood(t *testing.T, u *Users, from uint32) {
	t.Helper()
	for uid := from; ; uid++ {
		if _, err := u.Of(t.Context(), uid); err != nil {
			return
		}
	}
}

// A real account is never taken for a subordinate uid of another user's, however that user floods
// the lookups: until its name is known for sure, its requests are refused.
func TestAnAccountInARangeIsNeverChargedToItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{accounts: map[uint32]string{realUID: "carol"}}
		u := m.users()
		is := func(when string, want User) {
			t.Helper()
			got, err := u.Of(t.Context(), realUID)
			if err != nil || got.Name != want.Name || got.Owner != want.Owner || got.HasAccount != want.HasAccount {
				t.Errorf("%s: %+v, %v: want %+v", when, got, err, want)
			}
		}
		unsure := func(when string, cause error) {
			t.Helper()
			got, err := u.Of(t.Context(), realUID)
			if e, is := errors.AsType[*UnsureError](err); !is || got != nil || e.UID != realUID || e.Owner != "mallory" || !errors.Is(err, cause) {
				t.Errorf("%s: %+v, %v: want it refused because %v", when, got, err, cause)
			}
			if account := u.Account(realUID); account != "range:mallory" {
				t.Errorf("%s: a connection counts on %s", when, account)
			}
		}
		carol := User{Name: "carol", HasAccount: true}
		flood(t, u, 100000)
		unsure("while others flood the lookups", errPace)
		time.Sleep(PacedFor)
		is("a second later", carol)
		if account := u.Account(realUID); account != "carol" {
			t.Errorf("a connection counts on %s", account)
		}
		time.Sleep(KnownFor)
		flood(t, u, 101000)
		is("flooded, when it is looked up again", carol)
		time.Sleep(KnownFor)
		m.away = true
		is("while the directory is away", carol)
		m.away, m.accounts = false, nil // as getent says, too, if the directory is away
		time.Sleep(KnownFor)
		is("after it has gone", User{Name: strconv.Itoa(realUID)})
		time.Sleep(KnownFor)
		is("a minute after it has gone", User{Name: strconv.Itoa(realUID)})

		u, m.away = m.users(), true
		unsure("never known, while the directory is away", errAway)
		m.away = false
		unsure("likewise", errAway)
		time.Sleep(UnsureFor)
		is("of nobody", User{Name: strconv.Itoa(realUID), Owner: "mallory"})
	})
}

// A call that ends before the lookup has ended says nothing about its user.
func TestACallThatEndsChargesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{accounts: map[uint32]string{realUID: "carol"}}
		u := m.users()
		slow := u.NameOf
		u.NameOf = func(ctx context.Context, uid uint32) (string, error) {
			time.Sleep(time.Second)
			return slow(ctx, uid)
		}
		go func() { _, _ = u.Of(t.Context(), realUID) }()
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := u.Of(ended, realUID); !errors.Is(err, context.Canceled) || got != nil {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := u.WithoutLookup(realUID); !errors.Is(err, errNotYet) || got != nil {
			t.Errorf("%+v, %v", got, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got, err := u.WithoutLookup(realUID); err != nil || got.Name != "carol" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// Subordinate ids do not make accounts forgotten, and leave half of the lookups to others.
func TestIDsOfARangeLeaveRoomToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{accounts: map[uint32]string{realUID: "carol", 7: "alice"}}
		u := m.users()
		for _, uid := range []uint32{realUID, 7} {
			if _, err := u.Of(t.Context(), uid); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second) // the range's share is whole again
		m.asked = 0
		for uid := range uint32(3 * MostUsers) {
			_, _ = u.Of(t.Context(), 100000+uid)
		}
		if most := Burst / ownerPart; m.asked != most {
			t.Errorf("%d lookups for the ids of one user: want %d", m.asked, most)
		}
		for _, uid := range []uint32{realUID, 7} {
			if user := u.Known(uid); user == nil || !user.HasAccount {
				t.Errorf("uid %d is forgotten: %+v", uid, user)
			}
		}
		if len(u.known) > MostUsers {
			t.Errorf("%d are remembered", len(u.known))
		}
	})
}

// The owner of a range that is a number is looked up once for all ids of the range. If nobody can
// say who it is, nobody is charged.
func TestANumericOwnerIsLookedUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{accounts: map[uint32]string{1004: "carol"}}
		u := m.users()
		owned := 0
		u.Charged = func(uid uint32, _ bool, names subuid.Names) (string, bool, error) {
			if uid < 100000 {
				return "", false, nil
			}
			if names.NameOf == nil {
				return "1004", true, nil
			}
			owned++
			if is, err := names.IsName("1004"); err != nil || is {
				return "1004", err == nil, err
			}
			name, err := names.NameOf(1004)
			return name, err == nil, err
		}
		for uid := range uint32(20) {
			if user, err := u.Of(t.Context(), 100000+uid); err != nil || user.Owner != "carol" {
				t.Fatalf("%+v, %v", user, err)
			}
		}
		if owned != 20 || m.asked != 2*20+2 {
			t.Errorf("%d lookups for 20 ids: want 2 for each, and 2 for their owner", m.asked)
		}
		u, lookUp := m.users(), u.Charged
		u.Charged = lookUp
		nobody := u.UIDOf
		u.UIDOf = func(ctx context.Context, name string) (uint32, error) {
			if name == "1004" {
				return 0, errAway
			}
			return nobody(ctx, name)
		}
		if user, err := u.Of(t.Context(), 100000); !errors.Is(err, errAway) {
			t.Errorf("while it is not known whether 1004 is a name: %+v, %v", user, err)
		}
	})
}
