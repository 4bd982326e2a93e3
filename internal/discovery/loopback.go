package discovery

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Loopback reports whether a host, of a URL or of an address, is the machine that calls it: what
// is sent there crosses no network. The address of the name localhost is checked when it is
// dialed, see DialLocalhost.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && ip.Unmap().IsLoopback())
}

// NetworkError refuses to connect to another machine, because something would be sent there in
// clear.
type NetworkError struct {
	Address string // that was to be dialed, after names were resolved
}

func (e *NetworkError) Error() string {
	return fmt.Sprintf("%s is not a loopback address", e.Address)
}

// Dial is net.Dialer's DialContext.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// DialLoopback dials addresses of this machine alone. Each address that is tried is checked after
// its name was resolved. The error for any other address is a *NetworkError.
func DialLoopback(dialer net.Dialer) Dial {
	dialer.Control = func(_, address string, _ syscall.RawConn) error {
		if host, _, err := net.SplitHostPort(address); err != nil || !Loopback(host) {
			return &NetworkError{address}
		}
		return nil
	}
	return dialer.DialContext
}

// DialLocalhost dials any address, and for the name localhost only this machine's. Callers of that
// name rely on it: the file of hosts or a resolver must not make another machine of it.
func DialLocalhost(dialer net.Dialer) Dial {
	local := DialLoopback(dialer)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(address); err == nil && host == "localhost" {
			return local(ctx, network, address)
		}
		return dialer.DialContext(ctx, network, address) //nolint:wrapcheck // the dialer's says all
	}
}
