package access

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/yamlfile"
)

// Entry is one identity of a file.
type Entry struct {
	Actor identity.Actor
	// Hashes are the hashes of its tokens, as Hash makes them. There is more than one while one
	// token replaces another.
	Hashes []string
	// NotAfter is when the identity ends; zero: never.
	NotAfter time.Time
	// Bounds are those of the agent's host; nil if there are none.
	Bounds *Bounds
}

// Identities are the identities of one file, indexed by the hashes of their tokens.
type Identities struct {
	entries []Entry
	byHash  map[string]int     // index into entries
	bounds  map[string]*Bounds // by host
}

// Entries returns the identities in the order of the file. The caller must not change them.
func (i *Identities) Entries() []Entry { return i.entries }

// byToken finds the identity that owns a token.
func (i *Identities) byToken(token string) (Entry, bool) {
	at, found := i.byHash[Hash(token)]
	if !found {
		return Entry{}, false
	}
	return i.entries[at], true
}

// document and identityYAML are the schema of the file.
type document struct {
	Identities []identityYAML `yaml:"identities"`
}

type identityYAML struct {
	// Name is the identity's name in logs and allocations: 1 to 128 letters, digits, and . _ -.
	Name yamlfile.Scalar `yaml:"name"`
	// Role is reader, submitter, agent, operator, admin or coordinator.
	Role yamlfile.Scalar `yaml:"role"`
	// TokenHash is "sha256:" and the SHA-256 of the token in 64 hex digits. It is a list while one
	// token replaces another. The token itself is never here. An agent with a client certificate
	// needs no hash: then the identity only bounds capacity and labels.
	TokenHash yamlfile.OneOrMore `yaml:"tokenHash"`
	// Users are the users that a submitter or an operator may act as; "*" is all.
	Users []yamlfile.Scalar `yaml:"users"`
	// Priority allows a submitter to set priorities other than 0. Default false.
	Priority yamlfile.Scalar `yaml:"priority"`
	// MayLaunch lists the operating system accounts, by name, under which a submitter, an operator
	// or an admin may launch engines on hosts. Default: none.
	MayLaunch []yamlfile.Scalar `yaml:"mayLaunch"`
	// Host is the id of the host that an agent speaks for.
	Host yamlfile.Scalar `yaml:"host"`
	// Capacity is the most that an agent's host may announce, such as {memory: 64GiB, cpu: 16, gpu:
	// 2}: the coordinator cuts the excess, and removes custom countables that are not listed.
	// Default: anything.
	Capacity map[string]yamlfile.Scalar `yaml:"capacity"`
	// Labels are the labels that an agent's host may announce, each with its value, a list of
	// values or "*" for any: the coordinator removes others. Default: anything.
	Labels map[string]yamlfile.OneOrMore `yaml:"labels"`
	// NotAfter is when the identity ends: the last day, such as 2027-01-31, or a time, such as
	// 2027-01-31T12:00:00Z. Default: never.
	NotAfter yamlfile.Scalar `yaml:"notAfter"`
}

// ofIdentities matches a word that every file of identities contains.
var ofIdentities = regexp.MustCompile(`\bidentities\b`)

// The patterns of names and hashes. Other names contain an identity's name before @ or after a
// colon.
var (
	namePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)
	hashPattern = regexp.MustCompile("^" + hashPrefix + "[0-9a-f]{64}$")
)

const (
	wantName = "1 to 128 letters, digits, and . _ -, beginning with a letter or digit"
	wantHash = "sha256: and the 64 hex digits of the token's SHA-256, as bursar token create writes them; never the token itself"
)

// Parse reads a file of identities; only errors use name. The error is a *yamlfile.Error. It never
// shows the value in the place of a hash, because that value may be a token.
func Parse(name string, data []byte) (*Identities, error) {
	var d document
	doc, err := yamlfile.Parse(name, data)
	if err == nil {
		err = doc.Decode(&d)
	}
	switch {
	case err != nil && !ofIdentities.Match(data): // such as a certificate
		return nil, &yamlfile.Error{File: name, Reason: "is no file of identities: want one with a list identities:, as bursar token create makes it"}
	case err != nil:
		return nil, withoutLines(err)
	}
	if d.Identities == nil {
		return nil, doc.At("identities", "missing: want a list of identities, or [] for none")
	}
	all := &Identities{byHash: make(map[string]int), bounds: make(map[string]*Bounds)}
	names := make(map[string]bool, len(d.Identities))
	for i, l := range d.Identities {
		at := fmt.Sprintf("identities[%d]", i)
		entry, wrong := l.entry()
		if wrong != nil {
			return nil, withoutLines(doc.At(at+"."+wrong.field, wrong.reason))
		}
		if names[entry.Actor.Name] {
			return nil, doc.At(at+".name", yamlfile.Want(entry.Actor.Name, "a name that no other identity has"))
		}
		names[entry.Actor.Name] = true
		for _, hash := range entry.Hashes {
			if other, taken := all.byHash[hash]; taken {
				return nil, doc.At(at+".tokenHash", fmt.Sprintf("already that of %s: want a token of its own", all.nameOf(other, entry)))
			}
			all.byHash[hash] = i
		}
		if entry.Bounds != nil {
			if host := entry.Actor.Host; all.bounds[host] != nil {
				return nil, doc.At(at+".host", yamlfile.Want(host, "capacity and labels in one identity of a host only"))
			}
			all.bounds[entry.Actor.Host] = entry.Bounds
		}
		all.entries = append(all.entries, entry)
	}
	return all, nil
}

// nameOf returns the name of the identity that already has a hash.
func (i *Identities) nameOf(at int, current Entry) string {
	if at < len(i.entries) {
		return i.entries[at].Actor.Name
	}
	return current.Actor.Name
}

// withoutLines removes the excerpt of the file from an error.
func withoutLines(err error) error {
	e, ok := errors.AsType[*yamlfile.Error](err)
	if !ok {
		return err
	}
	return &yamlfile.Error{File: e.File, Line: e.Line, Column: e.Column, Field: e.Field, Reason: e.Reason}
}

// wrongField is the fault of one field of an identity.
type wrongField struct{ field, reason string }

// entry converts one identity of the file.
func (l identityYAML) entry() (Entry, *wrongField) {
	var e Entry
	name := l.Name.String()
	if !namePattern.MatchString(name) || name == "local" || name == "remote" {
		return e, &wrongField{"name", yamlfile.Want(name, wantName+`; "local" and "remote" are taken`)}
	}
	role, err := identity.ParseRole(l.Role.String())
	if err != nil {
		return e, &wrongField{"role", yamlfile.Want(l.Role.String(), "reader, submitter, agent, operator, admin or coordinator")}
	}
	e.Actor = actorOf(role, name)
	var wrong *wrongField
	if e.Bounds, wrong = l.bounds(); wrong != nil {
		return e, wrong
	}
	if wrong := l.hashes(&e); wrong != nil {
		return e, wrong
	}
	if wrong := l.rights(&e.Actor); wrong != nil {
		return e, wrong
	}
	if l.NotAfter.IsSet() {
		if e.NotAfter, err = ParseTime(l.NotAfter.String()); err != nil {
			return e, &wrongField{"notAfter", yamlfile.Want(l.NotAfter.String(), "a day such as 2027-01-31, or a time such as 2027-01-31T12:00:00Z")}
		}
	}
	return e, nil
}

func (l identityYAML) hashes(e *Entry) *wrongField {
	if len(l.TokenHash) == 0 && (e.Bounds == nil || e.Actor.Role != identity.Agent) {
		return &wrongField{"tokenHash", "missing: want " + wantHash}
	}
	for _, hash := range l.TokenHash {
		if !hashPattern.MatchString(hash.String()) {
			return &wrongField{"tokenHash", "is no hash: want " + wantHash}
		}
		if !slices.Contains(e.Hashes, hash.String()) {
			e.Hashes = append(e.Hashes, hash.String())
		}
	}
	return nil
}

// rights reads the rights of an identity. It refuses a field that has no meaning for the role.
func (l identityYAML) rights(a *identity.Actor) *wrongField {
	mayAct := a.Role == identity.Submitter || a.Role == identity.Operator
	switch {
	case a.Role == identity.Submitter && len(l.Users) == 0:
		return &wrongField{"users", `missing: want the users that a submitter may act as, or ["*"] for all`}
	case len(l.Users) > 0 && !mayAct:
		return &wrongField{"users", fmt.Sprintf("means nothing for the role %s: want it for submitter and operator only", a.Role)}
	case l.Priority.IsSet() && a.Role != identity.Submitter:
		return &wrongField{"priority", fmt.Sprintf("means nothing for the role %s: want it for submitter only", a.Role)}
	case a.Role == identity.Agent && !identity.IsHostID(l.Host.String()):
		return &wrongField{"host", yamlfile.Want(l.Host.String(), "the id of the agent's host: a letter or digit, then up to 252 letters, digits, and . _ : -")}
	case (l.Capacity != nil || l.Labels != nil) && a.Role != identity.Agent:
		field := "capacity"
		if l.Capacity == nil {
			field = "labels"
		}
		return &wrongField{field, fmt.Sprintf("means nothing for the role %s: want it for agent only", a.Role)}
	case l.Host.IsSet() && a.Role != identity.Agent:
		return &wrongField{"host", fmt.Sprintf("means nothing for the role %s: want it for agent only", a.Role)}
	}
	a.Host = l.Host.String()
	if wrong := l.actsAs(a); wrong != nil {
		return wrong
	}
	if wrong := l.launchesAs(a); wrong != nil {
		return wrong
	}
	if l.Priority.IsSet() {
		may, wrong := l.Priority.Bool()
		if wrong != "" {
			return &wrongField{"priority", wrong}
		}
		a.Priority = may
	}
	return nil
}

// actsAs reads the users that an identity may act as.
func (l identityYAML) actsAs(a *identity.Actor) *wrongField {
	for i, user := range l.Users {
		switch {
		case user.String() == "":
			return &wrongField{fmt.Sprintf("users[%d]", i), `"": want a user, or "*" for all`}
		case user.String() == "*":
			a.Anyone = true
		default:
			a.Users = append(a.Users, user.String())
		}
	}
	return nil
}

// accountPattern matches the valid names of operating system accounts.
var accountPattern = regexp.MustCompile(`^[a-zA-Z0-9_.@+\\-]{1,256}$`)

// launchesAs reads the accounts under which an identity may launch engines.
func (l identityYAML) launchesAs(a *identity.Actor) *wrongField {
	if len(l.MayLaunch) > 0 && a.Role != identity.Submitter && a.Role != identity.Operator && a.Role != identity.Admin {
		return &wrongField{"mayLaunch", fmt.Sprintf("means nothing for the role %s: want it for submitter, operator and admin only", a.Role)}
	}
	for i, account := range l.MayLaunch {
		if name := account.String(); !accountPattern.MatchString(name) || name == "root" {
			return &wrongField{fmt.Sprintf("mayLaunch[%d]", i), yamlfile.Want(name, "the name of an account on the hosts, never root or a pattern")}
		}
		a.MayLaunch = append(a.MayLaunch, account.String())
	}
	return nil
}

// actorOf returns an actor with the rights that its role always has.
func actorOf(role identity.Role, name string) identity.Actor {
	return identity.Actor{
		Name: name, Role: role, Anyone: role == identity.Admin, Admin: role == identity.Admin,
		Priority: role == identity.Admin || role == identity.Operator,
	}
}

// ParseTime reads a time such as 2027-01-31T12:00:00Z, or a day, which stands for its end (UTC).
func ParseTime(text string) (time.Time, error) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.AddDate(0, 0, 1), nil
	}
	return time.Parse(time.RFC3339, text)
}
