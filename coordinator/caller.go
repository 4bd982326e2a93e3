package coordinator

import (
	"context"
	"net/netip"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/identity"
)

// remote is whoever comes from another machine to a coordinator that was told to be insecure.
var remote = identity.Actor{Name: "remote", Anyone: true, Priority: true, Admin: true} //nolint:gochecknoglobals // never changed

// actorOf says who makes a call. Over loopback, or within the process, it is whom the caller's header names, such as the
// user that an agent knows from its socket, or else whoever is on this machine. From elsewhere nobody is believed; only an
// insecure coordinator can be reached from there at all.
func actorOf(ctx context.Context) (identity.Actor, error) {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return identity.Local(), nil
	}
	claimed := info.RequestHeader().Get(identity.Header)
	if !isLocal(info.Peer().Addr) {
		if claimed != "" {
			return identity.Actor{}, fieldError(identity.Header, claimed, "no such header from another machine")
		}
		return remote, nil
	}
	if claimed == "" {
		return identity.Local(), nil
	}
	actor, err := identity.Decode(claimed)
	if err != nil {
		return identity.Actor{}, connect.NewError(connect.CodeInvalidArgument, err)
	}
	return actor, nil
}

// isLocal reports whether a peer is this machine or this process: what is no IP address comes from a listener that exists
// only in here.
func isLocal(peer string) bool {
	address, err := netip.ParseAddrPort(peer)
	return err != nil || address.Addr().Unmap().IsLoopback()
}
