package auth

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/bursar/bursar/internal/identity"
)

// Without identities, a user of the machine may have engines launched as themselves, if that
// account is allowed here. Root and the coordinator's own user may use all allowed accounts.
// Callers from other machines may use none.
func TestWhoMayLaunchWithoutIdentities(t *testing.T) {
	user := func(name string) identity.Actor {
		return identity.Actor{Name: identity.LocalPrefix + name, Users: []string{name}, Role: identity.Submitter}
	}
	a := &authenticator{localMayLaunch: []string{"alice", "etl", "root"}}
	for name, c := range map[string]struct {
		maker identity.Actor
		want  string
	}{
		"root, or the own user":  {identity.Local(), "[alice etl]"},
		"one of them":            {user("alice"), "[alice]"},
		"another user":           {user("bob"), "[]"},
		"a uid without a name":   {user("uid:1000"), "[]"},
		"a user called root":     {user("root"), "[]"},
		"a user of several":      {identity.Actor{Name: "x", Users: []string{"alice", "etl"}}, "[]"},
		"nobody, who is anybody": {identity.Actor{Name: "x", Anyone: true, Users: []string{"alice"}}, "[]"},
	} {
		c.maker.MayLaunch = a.launchesOf(c.maker)
		got := []string{}
		for _, account := range a.localMayLaunch {
			if c.maker.MayLaunchAs(account) {
				got = append(got, account)
			}
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
	if got := (&authenticator{}).launchesOf(identity.Local()); got != nil {
		t.Errorf("by default: %v", got)
	}
	for peer, want := range map[string]string{"127.0.0.1:4000": "[etl]", "192.0.2.7:4000": "[]"} {
		a := &authenticator{localMayLaunch: []string{"etl"}, insecure: true}
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr = peer
		r.Header.Set(identity.Header, `{"name":"x","mayLaunch":["alice","etl"],"anyone":true}`)
		if _, actor, err := a.assumedActor(r, r.Header.Get(identity.Header)); err == nil && fmt.Sprint(actor.MayLaunch) != want {
			t.Errorf("a header from %s: %v, want %s", peer, actor.MayLaunch, want)
		} else if err != nil && peer != "127.0.0.1:4000" {
			t.Errorf("a header from %s: %v", peer, err)
		}
	}
	if remote().MayLaunch != nil {
		t.Error("a caller from another machine may launch")
	}
}
