package access

import "github.com/bursar/bursar/internal/identity"

// MaySeeOutput reports whether an actor may see the output of a user's engines. It is the only
// place that decides this. Operators and admins see the output of all users. A submitter sees the
// output of the users that it may act as. All other roles see none: the right to make one call
// about allocations of any user (Rule.AsAnyone) does not count.
func MaySeeOutput(actor identity.Actor, user string) bool {
	switch actor.Effective() {
	case identity.Operator, identity.Admin:
		return true
	case identity.Submitter:
		return actor.IsUser(user)
	default: // a coordinator of an earlier version passes a reader's Explain on with Anyone
		return false
	}
}
