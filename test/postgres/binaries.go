package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// binaries is the directory of the programs of one PostgreSQL: initdb and postgres.
type binaries string

// errNoServer means that no PostgreSQL is installed.
var errNoServer = errors.New("no PostgreSQL server here: want initdb and postgres on the PATH, below /usr/lib/postgresql, or in " +
	"PG_BIN; `make provide-postgres` installs them on Debian")

// findBinaries returns the newest installed server. PG_BIN, the directory of its programs,
// overrides the search.
func findBinaries() (binaries, error) {
	if dir := os.Getenv("PG_BIN"); dir != "" {
		if !complete(dir) {
			return "", fmt.Errorf("PG_BIN %s: want a directory with initdb and postgres", dir)
		}
		return binaries(dir), nil
	}
	var dirs []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("postgres: %w", err)
		}
		dirs = append(dirs, found...)
	}
	if found, err := exec.LookPath("postgres"); err == nil {
		if found, err = filepath.EvalSymlinks(found); err == nil {
			dirs = append(dirs, filepath.Dir(found))
		}
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !complete(dir) })
	if len(dirs) == 0 {
		return "", errNoServer
	}
	return binaries(slices.MaxFunc(dirs, func(a, b string) int { return cmp.Compare(major(a), major(b)) })), nil
}

func complete(dir string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if info, err := os.Stat(filepath.Join(dir, program)); err != nil || info.IsDir() { //nolint:gosec // where the tester says
			return false
		}
	}
	return true
}

// major reads the version from a path such as /usr/lib/postgresql/15/bin; 0 if the path has none.
func major(dir string) int {
	name := filepath.Base(filepath.Dir(dir))
	if len(name) > len("pgsql-") && name[:len("pgsql-")] == "pgsql-" {
		name = name[len("pgsql-"):]
	}
	n, err := strconv.Atoi(name)
	if err != nil {
		return 0
	}
	return n
}

// account returns the user that runs the server; nil: the user of this process.
func account() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // said above
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as")
}
