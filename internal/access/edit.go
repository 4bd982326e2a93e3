package access

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/yamlfile"
)

// Format writes an identity in the form of the file, with indent before each line.
func Format(e Entry, indent string) string {
	var b strings.Builder
	add := func(key, value string) { fmt.Fprintf(&b, "%s  %s: %s\n", indent, key, value) }
	fmt.Fprintf(&b, "%s- name: %s\n", indent, quoted(e.Actor.Name))
	add("role", string(e.Actor.Role))
	switch len(e.Hashes) {
	case 0:
	case 1:
		add("tokenHash", e.Hashes[0])
	default:
		add("tokenHash", `["`+strings.Join(e.Hashes, `", "`)+`"]`)
	}
	users := make([]string, 0, len(e.Actor.Users)+1)
	for _, user := range e.Actor.Users {
		users = append(users, quoted(user))
	}
	if e.Actor.Anyone && e.Actor.Role != identity.Admin {
		users = append(users, `"*"`)
	}
	if len(users) > 0 {
		add("users", "["+strings.Join(users, ", ")+"]")
	}
	if e.Actor.Priority && e.Actor.Role == identity.Submitter {
		add("priority", "true")
	}
	if len(e.Actor.MayLaunch) > 0 {
		accounts := make([]string, len(e.Actor.MayLaunch))
		for i, account := range e.Actor.MayLaunch {
			accounts[i] = quoted(account)
		}
		add("mayLaunch", "["+strings.Join(accounts, ", ")+"]")
	}
	if e.Actor.Host != "" {
		add("host", quoted(e.Actor.Host))
	}
	e.Bounds.format(add)
	if !e.NotAfter.IsZero() {
		add("notAfter", quoted(e.NotAfter.UTC().Format(time.RFC3339)))
	}
	return b.String()
}

// plainWord matches a text that YAML reads as a string without quotes.
var plainWord = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._-]*$`)

func quoted(text string) string {
	switch strings.ToLower(text) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return strconv.Quote(text)
	}
	if plainWord.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

// EditError says that the layout of a file lets only a person change it.
type EditError struct{ File, Want string }

func (e *EditError) Error() string {
	return fmt.Sprintf("%s: cannot be changed as it is laid out: want %s", e.File, e.Want)
}

var (
	emptyList = regexp.MustCompile(`(?m)^identities:[ \t]*\[[ \t]*\][ \t]*(#.*)?$`)
	listItem  = regexp.MustCompile(`(?m)^([ \t]*)-[ \t]`)
)

// Append returns a file's content with one more identity at its end; comments and layout stay.
// Errors: *yamlfile.Error about the old or the new content, *EditError.
func Append(name string, content []byte, e Entry) ([]byte, error) {
	indent := "  "
	if len(bytes.TrimSpace(content)) == 0 {
		content = []byte("identities:\n")
	}
	before := &Identities{}
	if string(content) != "identities:\n" {
		var err error
		if before, err = Parse(name, content); err != nil {
			return nil, err
		}
	}
	if i := slices.IndexFunc(before.entries, func(other Entry) bool { return other.Actor.Name == e.Actor.Name }); i >= 0 {
		return nil, taken(name, content, i, e.Actor.Name)
	}
	changed := emptyList.ReplaceAll(content, []byte("identities: $1"))
	if found := listItem.FindSubmatch(changed); found != nil {
		indent = string(found[1])
	}
	if !bytes.HasSuffix(changed, []byte("\n")) {
		changed = append(changed, '\n')
	}
	changed = append(changed, Format(e, indent)...)
	after, err := Parse(name, changed)
	if err != nil {
		return nil, err
	}
	if !same(after.entries, append(slices.Clone(before.entries), e)) {
		return nil, &EditError{name, "this to be added by hand:\n" + Format(e, indent)}
	}
	return changed, nil
}

// taken points to the identity that already has a name.
func taken(file string, content []byte, index int, name string) error {
	doc, err := yamlfile.Parse(file, content)
	if err != nil {
		return err
	}
	return withoutLines(doc.At(fmt.Sprintf("identities[%d].name", index), fmt.Sprintf(
		"%q is there already: want another name, a second hash in this one's tokenHash, or bursar token revoke %s before", name, name)))
}

// Remove returns a file's content without an identity; comments and layout stay. Errors:
// *yamlfile.Error about the old content, *EditError, *MissingError.
func Remove(name string, content []byte, who string) ([]byte, error) {
	before, err := Parse(name, content)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(before.entries, func(e Entry) bool { return e.Actor.Name == who })
	if at < 0 {
		return nil, &MissingError{File: name, Name: who}
	}
	doc, err := yamlfile.Parse(name, content)
	if err != nil {
		return nil, err
	}
	begin := func(i int) int { return doc.At(fmt.Sprintf("identities[%d]", i), "").Line - 1 }
	lines := strings.SplitAfter(string(content), "\n")
	from, to := begin(at), len(lines)
	if at+1 < len(before.entries) {
		to = begin(at + 1)
	}
	for to > from+1 && remark(lines[to-1]) {
		to-- // the line belongs to the next identity
	}
	changed := strings.Join(slices.Delete(slices.Clone(lines), from, to), "")
	want := slices.Delete(slices.Clone(before.entries), at, at+1)
	if len(want) == 0 {
		changed = strings.Replace(changed, "identities:", "identities: []", 1)
	}
	after, err := Parse(name, []byte(changed))
	if err != nil || !same(after.entries, want) {
		return nil, &EditError{name, "the identity " + who + " to be removed by hand"}
	}
	return []byte(changed), nil
}

// MissingError says that a file has no identity of this name.
type MissingError struct{ File, Name string }

func (e *MissingError) Error() string { return fmt.Sprintf("%s: no identity %q", e.File, e.Name) }

func remark(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || line[0] == '#'
}

func same(a, b []Entry) bool {
	return slices.EqualFunc(a, b, func(a, b Entry) bool { return Format(a, "") == Format(b, "") })
}

// NewEntry makes an identity with one token, as if it had been read from a file. Its error is the
// one that Parse would return for that file.
func NewEntry(role identity.Role, name, host string, users, mayLaunch []string, priority bool, notAfter time.Time, token string) (Entry, error) {
	e := Entry{Actor: actorOf(role, name), Hashes: []string{Hash(token)}, NotAfter: notAfter}
	e.Actor.Host, e.Actor.MayLaunch = host, mayLaunch
	for _, user := range users {
		if user == "*" {
			e.Actor.Anyone = true
		} else {
			e.Actor.Users = append(e.Actor.Users, user)
		}
	}
	e.Actor.Priority = e.Actor.Priority || priority
	text := Format(e, "")
	// Parse must see each field that the caller set, even if the role implies it.
	if priority && role != identity.Submitter {
		text += "  priority: true\n"
	}
	if len(users) > 0 && len(e.Actor.Users) == 0 && role == identity.Admin {
		text += "  users: [\"*\"]\n"
	}
	all, err := Parse("identity", []byte("identities:\n"+text))
	if err != nil {
		return Entry{}, err
	}
	return all.entries[0], nil
}
