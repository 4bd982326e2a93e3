package auth

import (
	"fmt"

	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// checkOwnHost refuses a call of an agent, or through it, that names another host. A query that
// names no host becomes one about the agent's host.
func checkOwnHost(actor identity.Actor, message any) error {
	if actor.Host == "" {
		return nil
	}
	switch m := message.(type) {
	case *bursarv1.RegisterRequest:
		return checkOwnID(actor, m.GetHostId(), "register")
	case *bursarv1.SyncRequest:
		return checkOwnID(actor, m.GetHostId(), "report")
	case *bursarv1.DeregisterRequest:
		return checkOwnID(actor, m.GetHostId(), "deregister")
	case *bursarv1.AllocateRequest:
		return checkOwnTarget(actor, m.GetHost().GetId(), "allocate on")
	case *bursarv1.ExplainRequest:
		if m.GetRequest() == nil {
			return nil
		}
		return checkOwnTarget(actor, m.GetRequest().GetHost().GetId(), "allocate on")
	case *bursarv1.AllocationServiceListRequest:
		if m.GetHostId() == "" {
			m.HostId = actor.Host
		}
		return checkOwnTarget(actor, m.GetHostId(), "see allocations of")
	case *bursarv1.AllocationServiceWatchRequest:
		if m.GetHostId() == "" {
			m.HostId = actor.Host
		}
		return checkOwnTarget(actor, m.GetHostId(), "see allocations of")
	default:
		return nil
	}
}

// checkOwnID refuses an agent that reports a host id other than that of its identity. One of the
// two is wrong on the agent's host.
func checkOwnID(actor identity.Actor, host, verb string) error {
	if host == actor.Host {
		return nil
	}
	return &access.DeniedError{
		Actor: actor.Name, What: fmt.Sprintf("%s: hostId is %q, the identity is for host %q", verb, host, actor.Host),
		Want: fmt.Sprintf("hostId: %s, or a token (certificate) of %s", actor.Host, host),
	}
}

func checkOwnTarget(actor identity.Actor, host, verb string) error {
	if host == actor.Host {
		return nil
	}
	what := fmt.Sprintf("%s host %s", verb, host)
	if host == "" {
		what = verb + " any host"
	}
	return &access.DeniedError{Actor: actor.Name, What: what, Want: wantOwnHost(actor)}
}

func wantOwnHost(actor identity.Actor) string {
	return fmt.Sprintf("host %s, through whose agent the call came; a coordinator takes calls about any host from callers that it knows by a token or a certificate (for the command line: BURSAR_ADDR and BURSAR_TOKEN_FILE)", actor.Host)
}

// OnOwnHost refuses an allocation of another host to an actor whose call came through a host's
// agent. Other actors may see any. The error is an *access.DeniedError.
func OnOwnHost(actor identity.Actor, allocation fmt.Stringer, host string) error {
	if actor.Host == "" || host == actor.Host {
		return nil
	}
	return &access.DeniedError{Actor: actor.Name, What: fmt.Sprintf("see or change allocation %s: it is not on host %s", allocation, actor.Host), Want: wantOwnHost(actor)}
}
