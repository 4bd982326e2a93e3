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

	"github.com/bursar/bursar/internal/command"
)

// ErrNoGroup says that the machine knows no such group.
var ErrNoGroup = errors.New("no such group")

// group is a line of group(5).
type group struct {
	name    string
	gid     uint32
	members []string
}

// NamedWhole is Named with all groups that the name service gives the account, as initgroups(3)
// does. If the name service does not answer, the error says so, also for an account of the file.
func (u Users) NamedWhole(ctx context.Context, name string) (User, error) {
	found, err := u.find(ctx, byName(name))
	if err != nil {
		return User{}, err
	}
	found.Groups, err = u.groups(ctx, found)
	return found, err
}

// GIDsOf returns the gids of a group's name: those of the file, otherwise the name service's.
// Digits are a name like any other, never a gid; only the file can have such a name. ErrNoGroup:
// there is none.
func (u Users) GIDsOf(ctx context.Context, name string) ([]uint32, error) {
	unknown := fmt.Errorf("group %q: %w", name, ErrNoGroup)
	lines, err := u.groupFile()
	if err != nil {
		return nil, err
	}
	if gids := gidsOf(lines, func(g group) bool { return g.name == name }); len(gids) > 0 {
		return gids, nil
	}
	// getent takes what strtoul(3) reads as a number for a gid.
	if strings.Trim(name, " \t") != name || name == "" || strings.ContainsAny(name[:1], "0123456789+-") || strings.ContainsAny(name, ":\n\x00") {
		return nil, unknown
	}
	out, err := u.query(ctx, cmp.Or(u.Getent, "/usr/bin/getent"), "group", name)
	if exit, ok := errors.AsType[*command.ExitError](err); errors.Is(err, os.ErrNotExist) || ok && exit.ExitCode() == notFound {
		return nil, unknown
	}
	if err != nil {
		return nil, fmt.Errorf("look up group %q: %w", name, err)
	}
	if lines, err = parseGroups(bytes.NewReader(out)); err != nil {
		return nil, fmt.Errorf("look up group %q: %w", name, err)
	}
	// The name service may write the name otherwise: in other letters, or with its domain.
	if gids := gidsOf(lines, func(group) bool { return true }); len(gids) > 0 {
		return gids, nil
	}
	return nil, unknown
}

// GroupNames returns the names of an account's groups. nameless are those of its gids for which
// nobody knows a name. A name with spaces may be returned in parts and whole.
func (u Users) GroupNames(ctx context.Context, user User) (names []string, nameless []uint32, err error) {
	lines, err := u.groupFile()
	if err != nil {
		return nil, nil, err
	}
	for _, gid := range appendNew(slices.Clone(user.Groups), user.GID) {
		known := len(names)
		for _, line := range lines {
			if line.gid == gid {
				names = append(names, line.name)
			}
		}
		if len(names) == known {
			nameless = append(nameless, gid)
		}
	}
	if len(nameless) == 0 {
		return names, nil, nil
	}
	// It prints the number of a group without a name, and then ends with 1.
	out, err := u.query(ctx, cmp.Or(u.ID, "/usr/bin/id"), "-Gn", "--", user.Name)
	if errors.Is(err, os.ErrNotExist) {
		return names, nameless, nil
	}
	text := strings.Join(strings.Fields(string(out)), " ")
	if exit, ok := errors.AsType[*command.ExitError](err); err != nil && (!ok || exit.ExitCode() != idNotFound || text == "") {
		return nil, nil, fmt.Errorf("look up the groups' names of %q: %w", user.Name, err)
	}
	words := strings.Split(text, " ")
	nameless = slices.DeleteFunc(nameless, func(gid uint32) bool {
		return !slices.Contains(words, strconv.FormatUint(uint64(gid), 10))
	})
	return append(names, parts(words)...), nameless, nil
}

// maxWords is how many words of a group's name are put together.
const maxWords = 4

// parts are the texts of one word and more that follow each other: which of them are names, nobody
// can tell.
func parts(words []string) (texts []string) {
	for i := range words {
		for n := 1; n <= maxWords && i+n <= len(words); n++ {
			texts = append(texts, strings.Join(words[i:i+n], " "))
		}
	}
	return texts
}

func gidsOf(lines []group, is func(group) bool) (gids []uint32) {
	for _, line := range lines {
		if is(line) {
			gids = appendNew(gids, line.gid)
		}
	}
	return gids
}

func (u Users) groupFile() ([]group, error) {
	file, err := os.Open(cmp.Or(u.Group, "/etc/group"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // names the file
	}
	defer file.Close()
	return parseGroups(file)
}

// parseGroups reads name:password:gid:member,member.
func parseGroups(lines io.Reader) (groups []group, err error) {
	scanner := bufio.NewScanner(lines)
	scanner.Buffer(nil, maxLookup)
	for scanner.Scan() {
		fields := strings.Split(scanner.Text(), ":")
		if len(fields) != 4 {
			continue
		}
		if gid, err := parseNumber(fields[2]); err == nil {
			groups = append(groups, group{fields[0], gid, strings.Split(fields[3], ",")})
		}
	}
	return groups, scanner.Err() //nolint:wrapcheck // a line that is too long
}
