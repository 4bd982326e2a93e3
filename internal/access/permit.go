package access

import (
	"fmt"
	"strings"

	"github.com/bursar/bursar/internal/identity"
)

// DeniedError refuses what a known caller may not do.
type DeniedError struct {
	// Actor is who asked, What they may not do. Want is who may, or what to do instead.
	Actor, What, Want string
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s may not %s: want %s", e.Actor, e.What, e.Want)
}

// ActFor returns in whose name a call is made: that of its maker, or the one in the header
// identity.Header if the maker may act for others. An agent may act for callers of its own host,
// none of whom is an operator; a coordinator may act for everybody. The error is a *DeniedError,
// or says that the header cannot be read.
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

// Permit returns the actor with what a rule gives its role for this one call. maker is who made
// the call, actor is the one in whose name it was made. Both are the same if the call is the
// maker's own. The error is a *DeniedError.
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
