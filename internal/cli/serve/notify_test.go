package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/reload"
)

// A server that hangs must not feed the watchdog, and a stop that takes long must be allowed to.
func TestWatchdogIsFedWhileTheServerTurns(t *testing.T) {
	dir, err := os.MkdirTemp("", "bursar") //nolint:usetesting // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	next := func() string {
		if err := socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		message := make([]byte, 4096)
		n, err := socket.Read(message)
		if err != nil {
			t.Fatal(err)
		}
		return string(message[:n])
	}
	n := &notifier{log: slog.New(slog.DiscardHandler), watchdog: 10 * time.Millisecond}
	ready, live, looked := make(chan struct{}), make(chan error), make(chan struct{})
	close(ready)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- n.supervise(ctx, served{
			run: func(ctx context.Context) error {
				<-ctx.Done()
				<-looked
				return nil
			},
			ready: ready, status: func() string { return "fine" }, stopping: time.Hour,
			live:   func(context.Context) error { return <-live },
			reload: func(context.Context) (reload.Changes, error) { return reload.Changes{}, io.EOF },
		})
	}()
	if got := next(); got != "READY=1\nSTATUS=fine" {
		t.Errorf("%q", got)
	}
	live <- nil
	if got := next(); got != "WATCHDOG=1" {
		t.Errorf("%q", got)
	}
	for range 3 {
		live <- errors.New("the loop hangs")
	}
	live <- nil
	if got := next(); got != "WATCHDOG=1" { // of the fourth
		t.Errorf("%q", got)
	}
	// Every call is answered, or it could not stop.
	go func() {
		for {
			select {
			case live <- errors.New("the loop hangs"):
			case <-looked:
				return
			}
		}
	}()
	cancel()
	if got := next(); !strings.HasPrefix(got, "STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=3605000000") {
		t.Errorf("%q", got)
	}
	for range 3 {
		if got := next(); got != "WATCHDOG=1" { // it has its time
			t.Errorf("%q", got)
		}
	}
	close(looked)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestNobodyIsToldWhereThereIsNoServiceManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "")
	n := newNotifier(slog.New(slog.DiscardHandler))
	if err := n.supervise(t.Context(), served{run: func(context.Context) error { return io.EOF }, ready: make(chan struct{})}); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
