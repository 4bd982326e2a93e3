package discovery

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// queueTime is how long the queue of a socket may be full until a dial fails.
const queueTime = 5 * time.Second

// DialSocket dials a Unix socket. While its queue is full the kernel does not let the dial wait, so
// this does. It connects only to programs of users that may answer on this machine, as DialKnown
// does: another user may have put a socket in the place of one of our servers. Nothing is sent
// before that is known. The error is a *ForeignServerError, or says why there is no connection.
func DialSocket(ctx context.Context, dial Dial, path string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, queueTime)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		conn, err := dial(ctx, "unix", path)
		if err == nil {
			if err := checkSocket(conn, path); err != nil {
				_ = conn.Close() // nothing was sent
				return nil, err
			}
			return conn, nil
		}
		if !errors.Is(err, syscall.EAGAIN) {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}
