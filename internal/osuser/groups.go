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

// NamedWhole is Named with all groups that the name service gives the account, as with
// initgroups(3). If the name service does not answer, NamedWhole fails, also for an account of the
// file.
func (u Users) NamedWhole(ctx context.Context, name string) (User, error) {
	found, err := u.find(ctx, byName(name))
	if err != nil {
		return User{}, err
	}
	found.Groups, err = u.groups(ctx, found)
	return found, err
}

// GIDsOf returns the gids of a group's name, from the file or otherwise from the name service.
// Digits are a name like any other, never a gid; only the file can have such a name. ErrNoGroup:
// there is no such group.
func (u Users) GIDsOf(ctx context.Context, name string) ([]uint32, error) {
	unknown := fmt.Errorf("group %q: %w", name, ErrNoGroup)
	lines, err := u.groupFile()
	if err != nil {
		return nil, err
	}
	if gids := gidsOf(lines, func(g group) bool { return g.name == name }); len(gids) > 0 {
		return gids, nil
	}
	// getent takes every text that strtoul(3) can parse as a gid.
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
	// The name service may spell the name differently: in another case, or with its domain.
	if gids := gidsOf(lines, func(group) bool { return true }); len(gids) > 0 {
		return gids, nil
	}
	return nil, unknown
}

// GroupNames returns the names of an account's groups. nameless are its gids without a known name.
// A name with spaces may be returned in parts and whole.
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
	// For a group without a name, id prints the number and exits with 1.
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

// maxWords is the most words that parts joins to one name.
const maxWords = 4

// parts returns all texts of one to maxWords adjacent words. The output does not show which of them
// are names.
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
