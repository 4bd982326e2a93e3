package discovery

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Loopback reports whether a host, of a URL or an address, is the caller's own machine, so that
// traffic to it crosses no network. The address of the name localhost is checked when it is dialed,
// see DialLocalhost.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && ip.Unmap().IsLoopback())
}

// NetworkError rejects a connection to another machine, because it would carry plain text.
type NetworkError struct {
	Address string // the dialed address, after name resolution
}

func (e *NetworkError) Error() string {
	return fmt.Sprintf("%s is not a loopback address", e.Address)
}

// Dial has the signature of net.Dialer.DialContext.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// DialLoopback dials only addresses of this machine. It checks each address after name resolution.
// The error for any other address is a *NetworkError.
func DialLoopback(dialer net.Dialer) Dial {
	dialer.Control = func(_, address string, _ syscall.RawConn) error {
		if host, _, err := net.SplitHostPort(address); err != nil || !Loopback(host) {
			return &NetworkError{address}
		}
		return nil
	}
	return dialer.DialContext
}

// DialLocalhost dials any address, but for the name localhost only this machine. Callers rely on
// that name: neither the hosts file nor a resolver may redirect it to another machine.
func DialLocalhost(dialer net.Dialer) Dial {
	local := DialLoopback(dialer)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(address); err == nil && host == "localhost" {
			return local(ctx, network, address)
		}
		return dialer.DialContext(ctx, network, address) //nolint:wrapcheck // the dialer's says all
	}
}
