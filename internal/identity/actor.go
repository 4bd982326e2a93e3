// Package identity defines the actor of a call: its name, its role and its users, and how an agent
// or a coordinator passes it on. It does not authenticate: the server that receives the call does.
// Values are immutable and safe to share.
package identity

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Header carries an Actor from an agent to a coordinator, and between coordinators. A coordinator
// accepts it only from a peer that may speak for others, and from an agent only for callers of its
// host.
const Header = "Bursar-Actor"

const (
	maxHeader = 8 << 10
	maxName   = 256
)

// Actor is the actor of a call: a name that scopes request ids, and its rights.
type Actor struct {
	// Name is unique among the actors that a coordinator knows, such as "alice@host-1".
	Name string `json:"name"`
	// Users are the values of the label "user" that it may act as.
	Users []string `json:"users,omitempty"`
	// Anyone lets it act as any user.
	Anyone bool `json:"anyone,omitempty"`
	// OnAnyones lets it act on allocations of any user in this one call, because of its role. It
	// gives no right to see the output of others' engines, and is never passed on.
	OnAnyones bool `json:"-"`
	// Priority lets it set a priority other than 0.
	Priority bool `json:"priority,omitempty"`
	// Admin lets it change hosts and rules.
	Admin bool `json:"admin,omitempty"`
	// MayLaunch are the accounts under which it may launch engines on hosts. No role implies any.
	// An agent cannot give it to callers of its host.
	MayLaunch []string `json:"mayLaunch,omitempty"`
	// Role decides which calls it may make. Agents and coordinators of an older version do not send
	// it: see Effective.
	Role Role `json:"role,omitempty"`
	// Host is set if the call comes from the agent of a host, or through it. Then the call may
	// touch only allocations of that host.
	Host string `json:"host,omitempty"`
	// Owner is the user who is charged for the actor, if it is another one: the owner of the
	// actor's range of subordinate user ids. It gives no right. Only agents, for callers of their
	// host, and coordinators send it.
	Owner string `json:"owner,omitempty"`
}

// RootAccount is the account under which no engine can be launched from elsewhere.
const RootAccount = "root"

// MayLaunchAs reports whether the actor may launch engines under an account.
func (a Actor) MayLaunchAs(account string) bool {
	return a.Host == "" && account != RootAccount && slices.Contains(a.MayLaunch, account)
}

// Effective returns the actor's role, also for an actor from a program that knows no roles.
func (a Actor) Effective() Role {
	switch {
	case a.Role != "":
		return a.Role
	case a.Admin:
		return Admin
	default:
		return Submitter
	}
}

// IsOperator reports whether the actor is an operator or an admin. An actor of a call through an
// agent never is.
func (a Actor) IsOperator() bool {
	role := a.Effective()
	return a.Host == "" && (role == Operator || role == Admin)
}

// Local is the actor of a call over loopback without credentials: an admitted local user.
func Local() Actor {
	return Actor{Name: "local", Anyone: true, Priority: true, Admin: true, Role: Admin}
}

// MayActAs reports whether the actor may make or touch an allocation of this user.
func (a Actor) MayActAs(user string) bool {
	return a.OnAnyones || a.IsUser(user)
}

// IsUser reports whether the actor counts as this user in every call, not only in one that its
// role allows for all users.
func (a Actor) IsUser(user string) bool {
	return a.Anyone || slices.Contains(a.Users, user)
}

// LocalPrefix is the prefix of the names of users of a coordinator's machine.
const LocalPrefix = "local:"

// ChargedName is Name with the owner's name in place of the actor's own. All code that counts by
// caller uses it.
func (a Actor) ChargedName() string {
	if a.Owner == "" || !a.isItself() {
		return a.Name
	}
	return ChargedName(a.Name, a.Owner)
}

// isItself reports whether the actor acts as exactly one user, the one in its name.
func (a Actor) isItself() bool {
	return !a.Anyone && len(a.Users) == 1 && a.Users[0] != "" && a.Users[0] == UserOf(a.Name)
}

// UserOf returns the user in an actor's name "USER@HOST" or "local:USER"; empty if there is none.
func UserOf(name string) string {
	if at := strings.LastIndexByte(name, '@'); at >= 0 {
		return name[:at]
	}
	user, _ := strings.CutPrefix(name, LocalPrefix)
	if len(user) == len(name) {
		return ""
	}
	return user
}

// ChargedName replaces the user in an actor's name by the charged user. A name without a user stays
// unchanged. The host in a name never changes, because an agent chooses the rest.
func ChargedName(name, charged string) string {
	user := UserOf(name)
	switch {
	case user == "":
		return name
	case strings.HasPrefix(name, user+"@"):
		return charged + name[len(user):]
	default:
		return LocalPrefix + charged
	}
}

// OnlyUser returns the user for a request that names none: the only one that the actor may act as,
// or empty if there are several or none.
func (a Actor) OnlyUser() string {
	if a.Anyone || a.OnAnyones || len(a.Users) == 0 {
		return ""
	}
	for _, user := range a.Users[1:] {
		if user != a.Users[0] {
			return ""
		}
	}
	return a.Users[0]
}

// Encode returns the header's value.
func (a Actor) Encode() string {
	text, err := json.Marshal(a)
	if err != nil { // no field of an Actor can fail to marshal
		panic(err)
	}
	return asciiOnly(text)
}

// Decode reads a header's value.
func Decode(value string) (Actor, error) {
	if len(value) > maxHeader {
		return Actor{}, fmt.Errorf("%s: %d bytes: want at most %d", Header, len(value), maxHeader)
	}
	var a Actor
	if err := json.Unmarshal([]byte(value), &a); err != nil {
		return Actor{}, fmt.Errorf("%s: %q: want the JSON of an actor: %w", Header, value, err)
	}
	if a.Name == "" || len(a.Name) > maxName {
		return Actor{}, fmt.Errorf("%s: name %q: want 1 to %d bytes", Header, a.Name, maxName)
	}
	if len(a.Owner) > maxName || a.Owner != "" && !a.isItself() {
		return Actor{}, fmt.Errorf("%s: owner %q: want at most %d bytes, and an actor that acts as exactly the user in its name", Header, a.Owner, maxName)
	}
	if a.Role != "" {
		if _, err := ParseRole(string(a.Role)); err != nil {
			return Actor{}, fmt.Errorf("%s: %w", Header, err)
		}
	}
	return a, nil
}

// asciiOnly escapes the characters that a header may not contain; JSON strings allow it.
func asciiOnly(text []byte) string {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r >= 0x20 && r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return string(out)
}
