package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/agent/launch"
)

// A directory of users that is away for a while must not make strangers of those who were known, nor for long of others.
func TestUsersKeepTheirNamesWhileNobodyCanBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers("h1", 0, []string{"ecm"})
		away := false
		p.lookup = func(_ context.Context, uid uint32) (string, error) {
			if away {
				return "", errors.New("timed out")
			}
			if uid == 7 {
				return "", launch.ErrNoUser
			}
			return map[uint32]string{5: "alice", 6: "ecm"}[uid], nil
		}
		is := func(uid uint32, name string, trusted bool) {
			t.Helper()
			if c := p.caller(t.Context(), uid); c.actor.Users[0] != name || c.trusted != trusted {
				t.Errorf("uid %d is %+v: want %s", uid, c.actor, name)
			}
		}
		is(5, "alice", false)
		is(7, "7", false)
		away = true
		time.Sleep(knownFor + time.Second)
		is(5, "alice", false)
		is(6, "6", false)
		away = false
		is(6, "6", false)
		time.Sleep(unsureFor)
		is(6, "ecm", true)
		is(5, "alice", false)
	})
}
