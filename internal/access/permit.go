package access

import (
	"fmt"
	"strings"

	"github.com/bursar/bursar/internal/identity"
)

// DeniedError refuses an operation to an authenticated caller that lacks the right.
type DeniedError struct {
	// Actor is the caller, What the operation, Want the callers with the right or another way.
	Actor, What, Want string
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s may not %s: want %s", e.Actor, e.What, e.Want)
}

// ActFor returns the actor in whose name a call is made: its maker, or the actor in the header
// identity.Header if the maker may act for others. An agent may act for callers of its own host, as
// submitters only. A coordinator may act for all callers. The error is a *DeniedError, or a parse
// error of the header.
func ActFor(maker identity.Actor, header string) (identity.Actor, error) {
	if header == "" {
		return maker, nil
	}
	switch maker.Effective() {
	case identity.Coordinator:
		return identity.Decode(header)
	case identity.Agent:
		named, err := identity.Decode(header)
		if err != nil {
			return identity.Actor{}, err
		}
		if !strings.HasSuffix(named.Name, "@"+maker.Host) {
			return identity.Actor{}, &DeniedError{
				maker.Name, fmt.Sprintf("speak for %q", named.Name), fmt.Sprintf("a caller of its own host, whose name ends with @%s", maker.Host),
			}
		}
		named.Role, named.Host, named.Admin, named.MayLaunch = identity.Submitter, maker.Host, false, nil
		return named, nil
	default:
		return identity.Actor{}, &DeniedError{
			maker.Name, "speak for others (header " + identity.Header + ")", "no such header: only agents and coordinators send it",
		}
	}
}

// Permit returns the actor with the rights that a rule adds for this one call. maker made the call,
// in the name of actor. Both are the same if the maker calls for itself. The error is a
// *DeniedError.
func (r Rule) Permit(maker, actor identity.Actor, procedure string) (identity.Actor, error) {
	role := actor.Effective()
	vouched := maker.Effective() == identity.Agent && role != identity.Agent
	switch {
	case vouched && !r.Vouched:
		return actor, &DeniedError{maker.Name, "call " + procedure + " in the name of " + actor.Name, "a coordinator asked by the caller itself, with a token or certificate of its own"}
	case !r.Allows(role):
		return actor, &DeniedError{actor.Name, fmt.Sprintf("call %s with the role %s", procedure, role), "one of the roles " + r.Who()}
	}
	for _, anyones := range r.AsAnyone {
		actor.OnAnyones = actor.OnAnyones || anyones == role && actor.Host == ""
	}
	return actor, nil
}
