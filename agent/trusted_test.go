package agent

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
)

func TestReloadedTrustedUsersAreLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		a, err := New(Config{HostID: "h1"}, Deps{
			Allocations: &patient{}, Hosts: &heartbeatServer{}, Meter: still{}, Logger: slog.New(slog.NewTextHandler(&out, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.trusted.Run(ctx) }()
		synctest.Wait()
		if _, err := a.Reload(Config{HostID: "h1", TrustedUsers: []string{"nosuchuserhere"}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if warned := out.String(); !strings.Contains(warned, "user=nosuchuserhere") {
			t.Errorf("after a reload: %s", warned)
		}
	})
}
