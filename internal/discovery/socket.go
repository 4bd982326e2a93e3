package discovery

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// queueTime is how long a socket's queue may stay full before a dial fails.
const queueTime = 5 * time.Second

// DialSocket dials a Unix socket. While the socket's queue is full, the kernel fails the dial
// instead of waiting, so DialSocket retries. Like DialKnown it connects only to programs of
// accepted users, because another user may have replaced the socket of one of our servers. It
// checks that before it sends anything. The error is a *ForeignServerError, or the reason why there
// is no connection.
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
