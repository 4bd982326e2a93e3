package osuser

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/bursar/bursar/internal/command"
)

const (
	// lookupTimeout bounds a lookup if the directory of users does not answer.
	lookupTimeout = 5 * time.Second
	// maxLookup bounds the part of an answer that is read, in bytes: a user may be in some thousand
	// groups.
	maxLookup = 256 << 10
	// notFound is the exit code of getent if there is no such key.
	notFound = 2
	// idNotFound is the exit code of id if there is no such user.
	idNotFound = 1
	// Defaults for users whose line leaves them out.
	defaultShell = "/bin/sh"
	defaultHome  = "/"
	// path is the PATH of the programs.
	path = "PATH=/usr/local/bin:/usr/bin:/bin"
)

// Users finds the accounts of this machine: in its files, and in other sources of its name service,
// such as LDAP. Only the C library can query these, so Users runs getent(1) and id(1), without a
// shell. The zero value is ready to use and safe for concurrent use.
type Users struct {
	// Passwd and Group are the files; the defaults are /etc/passwd and /etc/group.
	Passwd, Group string
	// Getent and ID are the programs; the defaults are /usr/bin/getent and /usr/bin/id. If one is
	// missing, Users reads only the files.
	Getent, ID string
	// Pace is the rate limit of the programs that find a user; nil means no limit.
	Pace *rate.Limiter
	// Slots bounds the programs that run at a time by its capacity. If a directory of users does
	// not answer, each takes a process and a thread for seconds. Nil means no bound.
	Slots chan struct{}
	// Silence remembers that the name service does not answer; nil means that each lookup waits
	// anew.
	Silence *Silence
}

var errPace = errors.New("users are looked up too often")

// Named returns the account of a name. Digits are a name like any other, never a uid. ErrNoUser:
// there is no such account, or the name service spells its name differently, such as in another
// case.
func (u Users) Named(ctx context.Context, name string) (User, error) {
	return u.withGroups(ctx, byName(name))
}

// OfUID returns the account of a uid. ErrNoUser: there is no such account.
func (u Users) OfUID(ctx context.Context, uid uint32) (User, error) {
	return u.withGroups(ctx, byUID(uid))
}

// UIDOf returns the uid of a name. ErrNoUser: there is no such account.
func (u Users) UIDOf(ctx context.Context, name string) (uint32, error) {
	found, err := u.find(ctx, byName(name))
	return found.UID, err
}

// NameOf returns the name of a uid. ErrNoUser: there is no such account.
func (u Users) NameOf(ctx context.Context, uid uint32) (string, error) {
	found, err := u.find(ctx, byUID(uid))
	return found.Name, err
}

// NameOfFile is NameOf for the accounts in the file. It never takes long.
func (u Users) NameOfFile(uid uint32) (string, error) {
	found, err := u.findInFile(byUID(uid))
	return found.Name, err
}

// key identifies an account for a lookup: by its uid if byUID is set, otherwise by its name.
type key struct {
	name  string
	uid   uint32
	byUID bool
}

func byName(name string) key { return key{name: name} }
func byUID(uid uint32) key   { return key{uid: uid, byUID: true} }

func (k key) String() string {
	if k.byUID {
		return "uid " + strconv.FormatUint(uint64(k.uid), 10)
	}
	return strconv.Quote(k.name)
}

// is reports whether an account matches the key.
func (k key) is(found User) bool {
	return k.byUID && found.UID == k.uid || !k.byUID && found.Name == k.name
}

func (k key) unknown() error { return fmt.Errorf("%s: %w", k, ErrNoUser) }

func (u Users) withGroups(ctx context.Context, k key) (User, error) {
	found, err := u.findInFile(k)
	if err == nil {
		found.Groups, err = u.groupsOfLocal(ctx, found)
		return found, err
	}
	if found, err = u.find(ctx, k); err != nil {
		return User{}, err
	}
	found.Groups, err = u.groups(ctx, found)
	return found, err
}

// groupsOfLocal returns the groups of an account of the file. A directory of users may add some. If
// it does not answer, they are left out: a directory that hangs blocks no local user.
func (u Users) groupsOfLocal(ctx context.Context, user User) ([]uint32, error) {
	if u.Silence.lasts() {
		return u.groupsOfFile(user)
	}
	short, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	groups, err := u.groups(short, user)
	if err == nil || ctx.Err() != nil || short.Err() == nil {
		return groups, err
	}
	u.Silence.note(user.Name, err)
	return u.groupsOfFile(user)
}

// Self returns the account of this process, for machines without an entry for it.
func Self() User {
	groups, _ := os.Getgroups() // a process that does not change its user keeps its groups anyway
	user := User{
		Name: strconv.Itoa(os.Geteuid()), UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Home: defaultHome, Shell: defaultShell, //nolint:gosec // ids
	}
	user.Groups = []uint32{user.GID}
	for _, group := range groups {
		user.Groups = appendNew(user.Groups, uint32(group)) //nolint:gosec // an id
	}
	return user
}

// Nameless returns a user without an account.
func Nameless(name string, uid, gid uint32) User {
	return User{Name: name, UID: uid, GID: gid, Groups: []uint32{gid}, Home: defaultHome, Shell: defaultShell, Accountless: true}
}

// find reads the file first: a user of the file needs no program, and is found fast.
func (u Users) find(ctx context.Context, k key) (User, error) {
	if !k.byUID && (k.name == "" || strings.HasPrefix(k.name, "-") || strings.ContainsAny(k.name, ":\n\x00")) {
		return User{}, k.unknown()
	}
	if found, err := u.findInFile(k); !errors.Is(err, ErrNoUser) {
		return found, err
	}
	if u.Pace != nil && !u.Pace.Allow() {
		return User{}, errPace
	}
	asked := k.name
	switch {
	case k.byUID:
		asked = strconv.FormatUint(uint64(k.uid), 10)
	case isDigits(k.name):
		// getent reads digits as a uid; id tries them as a name first.
		uid, err := u.uidOfDigits(ctx, k)
		if err != nil {
			return User{}, err
		}
		asked = strconv.FormatUint(uint64(uid), 10)
	}
	out, err := u.query(ctx, cmp.Or(u.Getent, "/usr/bin/getent"), "passwd", asked)
	if exit, ok := errors.AsType[*command.ExitError](err); errors.Is(err, os.ErrNotExist) || ok && exit.ExitCode() == notFound {
		return User{}, k.unknown()
	}
	if err != nil {
		return User{}, fmt.Errorf("look up user %s: %w", k, err)
	}
	// For some texts, such as " 7" or a name in another case, getent finds a different account.
	if found, ok := findUser(bytes.NewReader(out), k); ok {
		return found, nil
	}
	return User{}, k.unknown()
}

// uidOfDigits looks up a name of digits. If no account has this name, id answers with the number
// itself.
func (u Users) uidOfDigits(ctx context.Context, k key) (uint32, error) {
	out, err := u.query(ctx, cmp.Or(u.ID, "/usr/bin/id"), "-u", "--", k.name)
	if exit, ok := errors.AsType[*command.ExitError](err); errors.Is(err, os.ErrNotExist) || ok && exit.ExitCode() == idNotFound {
		return 0, k.unknown()
	}
	if err != nil {
		return 0, fmt.Errorf("look up user %s: %w", k, err)
	}
	uid, err := parseNumber(strings.TrimSpace(string(out)))
	if err != nil {
		return 0, k.unknown()
	}
	return uid, nil
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

func (u Users) findInFile(k key) (User, error) {
	file, err := os.Open(cmp.Or(u.Passwd, "/etc/passwd"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return User{}, err //nolint:wrapcheck // names the file
	}
	if err == nil {
		defer file.Close()
		if found, ok := findUser(file, k); ok {
			return found, nil
		}
	}
	return User{}, k.unknown()
}

// findUser reads lines of passwd(5).
func findUser(lines io.Reader, k key) (User, bool) {
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		if found, ok := parseUser(scanner.Text()); ok && k.is(found) {
			return found, true
		}
	}
	return User{}, false
}

// parseUser reads name:password:uid:gid:comment:home:shell.
func parseUser(line string) (User, bool) {
	fields := strings.Split(line, ":")
	if len(fields) != 7 || fields[0] == "" || strings.HasPrefix(fields[0], "+") || strings.HasPrefix(fields[0], "-") {
		return User{}, false
	}
	uid, err := parseNumber(fields[2])
	if err != nil {
		return User{}, false
	}
	gid, err := parseNumber(fields[3])
	if err != nil {
		return User{}, false
	}
	return User{
		Name: fields[0], UID: uid, GID: gid, Home: cmp.Or(fields[5], defaultHome), Shell: cmp.Or(fields[6], defaultShell),
	}, true
}

// parseNumber also refuses -1, which means "unchanged" to the kernel.
func parseNumber(text string) (uint32, error) {
	number, err := strconv.ParseUint(text, 10, 32)
	if err == nil && number == 1<<32-1 {
		err = strconv.ErrRange
	}
	return uint32(number), err //nolint:wrapcheck // bounded; nobody reads the error
}

// groups returns all groups of a user, the primary group first.
func (u Users) groups(ctx context.Context, user User) ([]uint32, error) {
	out, err := u.query(ctx, cmp.Or(u.ID, "/usr/bin/id"), "-G", "--", user.Name)
	if errors.Is(err, os.ErrNotExist) {
		return u.groupsOfFile(user)
	}
	if err != nil {
		return nil, fmt.Errorf("look up the groups of %q: %w", user.Name, err)
	}
	groups := []uint32{user.GID}
	for field := range strings.FieldsSeq(string(out)) {
		group, err := parseNumber(field)
		if err != nil {
			return nil, fmt.Errorf("look up the groups of %q: %q: want a number", user.Name, field)
		}
		groups = appendNew(groups, group)
	}
	return groups, nil
}

// groupsOfFile returns the groups in /etc/group, the account's primary group first.
func (u Users) groupsOfFile(user User) ([]uint32, error) {
	groups := []uint32{user.GID}
	lines, err := u.groupFile()
	for _, line := range lines {
		if slices.Contains(line.members, user.Name) {
			groups = appendNew(groups, line.gid)
		}
	}
	return groups, err
}

func appendNew(list []uint32, number uint32) []uint32 {
	if slices.Contains(list, number) {
		return list
	}
	return append(list, number)
}

// query runs a program of the machine. The program gets only its arguments, not the agent's
// environment.
func (u Users) query(ctx context.Context, program string, args ...string) (answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	if u.Slots != nil {
		select {
		case u.Slots <- struct{}{}:
			defer func() {
				if undead, is := errors.AsType[*command.UndeadError](err); is {
					go func() {
						<-undead.Gone
						<-u.Slots
					}()
					return
				}
				<-u.Slots
			}()
		case <-ctx.Done():
			return nil, errPace
		}
	}
	c := command.Command{Args: append([]string{program}, args...), Dir: "/", Env: []string{path, "LC_ALL=C"}, KeepsRights: true, MaxOutput: maxLookup}
	printed, err := c.Run(ctx)
	return printed.Output, err //nolint:wrapcheck // the callers say what it was for
}
