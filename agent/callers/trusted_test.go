package callers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
		l := NewTrustedLoop(func() []string { return users }, played, slog.New(slog.NewTextHandler(&out, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		synctest.Wait()
		if warned := out.String(); strings.Count(warned, "WARN") != 1 || !strings.Contains(warned, "field=trustedUsers[1] user=nosuch") {
			t.Errorf("at the start: %s", warned)
		}
		out.Reset()
		users = []string{"other"}
		l.Again()
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
