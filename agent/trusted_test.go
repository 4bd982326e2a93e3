package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bursar/bursar/internal/osuser"
)

// played knows alice, and cannot tell of bob.
func played(_ context.Context, name string) (osuser.User, error) {
	switch name {
	case "alice":
		return osuser.User{Name: name}, nil
	case "bob":
		return osuser.User{}, errors.New("the name service does not answer")
	}
	return osuser.User{}, fmt.Errorf("%q: %w", name, osuser.ErrNoUser)
}

func TestATrustedUserThatNobodyKnowsIsWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		users := []string{"alice", "nosuch", "4711", "bob"}
		l := trustedLoop{users: func() []string { return users }, find: played, changed: make(chan struct{}, 1), log: slog.New(slog.NewTextHandler(&out, nil))}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.run(ctx) }()
		synctest.Wait()
		if warned := out.String(); strings.Count(warned, "WARN") != 1 || !strings.Contains(warned, "field=trustedUsers[1] user=nosuch") {
			t.Errorf("at the start: %s", warned)
		}
		out.Reset()
		users = []string{"other"}
		l.again()
		synctest.Wait()
		if warned := out.String(); strings.Count(warned, "WARN") != 1 || !strings.Contains(warned, "user=other") {
			t.Errorf("after a reload: %s", warned)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestReloadedTrustedUsersAreLookedUp(t *testing.T) {
	a, err := New(Config{HostID: "h1"}, Deps{Allocations: &patient{}, Hosts: &heartbeatServer{}, Meter: still{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Reload(Config{HostID: "h1", TrustedUsers: []string{"nosuch"}}); err != nil {
		t.Fatal(err)
	}
	if len(a.trusted.changed) != 1 || !slices.Equal(a.trusted.users(), []string{"nosuch"}) {
		t.Errorf("%d, %v", len(a.trusted.changed), a.trusted.users())
	}
}
