package launches

import (
	"os/user"
	"path"
	"strconv"

	"github.com/bursar/bursar/internal/cli/failure"
)

// namedPath is a path on the host, and the flag that has it.
type namedPath struct{ flag, path string }

func named(flag string, paths []string) (all []namedPath) {
	for _, p := range paths {
		all = append(all, namedPath{flag, p})
	}
	return all
}

// check refuses a path that depends on a directory: the host has another one than this program.
func (p namedPath) check() error {
	if p.path == "" && p.flag != "--need-file" || path.IsAbs(p.path) {
		return nil
	}
	return failure.Usagef("%s %q: want a path on the engine's host that begins with /", p.flag, p.path)
}

// accountOf is the name of a user; empty if nobody knows it.
func accountOf(uid int) string {
	found, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return found.Username
}
