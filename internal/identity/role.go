package identity

import (
	"fmt"
	"slices"
	"strings"
)

// Role says which calls an actor may make. What it may touch with them is said by the rest of the
// Actor. The empty role is that of an actor from a time before there were roles: Admin tells which
// one it has.
type Role string

// The roles. Which calls each may make stands in package access.
const (
	// Reader sees everything but what engines wrote, and changes nothing.
	Reader Role = "reader"
	// Submitter allocates for the users it may act as.
	Submitter Role = "submitter"
	// Agent speaks for one host, and on it for callers that it vouches for.
	Agent Role = "agent"
	// Operator looks after hosts and ends what must end, whosever it is.
	Operator Role = "operator"
	// Admin does everything.
	Admin Role = "admin"
	// Coordinator passes calls on that another coordinator received, in the name of their callers.
	Coordinator Role = "coordinator"
)

// Roles lists them from the least to the most.
func Roles() []Role { return []Role{Reader, Submitter, Agent, Operator, Admin, Coordinator} }

// ParseRole reads a role's name.
func ParseRole(text string) (Role, error) {
	if slices.Contains(Roles(), Role(text)) {
		return Role(text), nil
	}
	return "", fmt.Errorf("role: %q: want %s", text, oneOf(Roles()))
}

// organization is what the subject's organization of a certificate begins with; the role follows.
const organization = "bursar:"

// Organization is the organization (O) in the subject of a certificate with the role.
func (r Role) Organization() string { return organization + string(r) }

// RoleOf reads what Organization wrote. ok is false for any other organization; the role may be
// one that does not exist.
func RoleOf(text string) (role string, ok bool) { return strings.CutPrefix(text, organization) }

func oneOf(roles []Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
