package identity

import (
	"fmt"
	"slices"
	"strings"
)

// Role decides which calls an actor may make. The rest of the Actor limits what the calls may
// touch. An actor of a version without roles has the empty role: then Admin decides.
type Role string

// The roles. Package access defines which calls each may make.
const (
	// Reader sees everything but the output of engines, and changes nothing.
	Reader Role = "reader"
	// Submitter allocates for the users that it may act as.
	Submitter Role = "submitter"
	// Agent speaks for one host, and on it for callers that it vouches for.
	Agent Role = "agent"
	// Operator maintains hosts, and may end the allocations of all users.
	Operator Role = "operator"
	// Admin does everything.
	Admin Role = "admin"
	// Coordinator forwards calls that another coordinator received, in the name of their callers.
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

// organization is the prefix of the organization in a certificate's subject; the role follows.
const organization = "bursar:"

// Organization returns the organization (O) in the subject of a certificate with the role.
func (r Role) Organization() string { return organization + string(r) }

// RoleOf returns the role in an organization. ok is false for any other organization; the role may
// not exist.
func RoleOf(text string) (role string, ok bool) { return strings.CutPrefix(text, organization) }

func oneOf(roles []Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
