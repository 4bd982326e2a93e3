package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/internal/regularfile"
)

// environment returns all variables of an engine, in order.
func environment(r Request) []string {
	all := map[string]string{
		"HOME": r.User.Home, "USER": r.User.Name, "LOGNAME": r.User.Name, "SHELL": r.User.Shell, "PATH": pathOf(r.User),
	}
	maps.Copy(all, r.Environment)
	maps.Copy(all, r.Added)
	list := make([]string, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, key+"="+all[key])
	}
	return list
}

// checkRequired refuses an environment in which a variable is not set, or is empty.
func checkRequired(names, environment []string) error {
	for i, name := range names {
		if !slices.ContainsFunc(environment, func(entry string) bool {
			key, value, _ := strings.Cut(entry, "=")
			return key == name && value != ""
		}) {
			return &FieldError{
				Field: fmt.Sprintf("required_variables[%d]", i), Value: name,
				Want: "it in the environment of the launch, among its secrets, or one that every engine has", Err: errors.New("is not set"),
			}
		}
	}
	return nil
}

// pathOf returns the PATH of a login.
func pathOf(user osuser.User) string {
	if user.UID == 0 {
		return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return "/usr/local/bin:/usr/bin:/bin"
}

// makeLogs makes a folder for logs that belongs to the user. The folders above it belong to the
// agent, so no other user can put a link there. makeLogs follows no link all the same.
func makeLogs(parent, id string, user osuser.User) (string, error) {
	path := filepath.Join(parent, id)
	if err := regularfile.MakeFolders(parent, 0o755); err != nil { // users need access to their folders
		return "", fmt.Errorf("folder for logs: %w", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // of a checked id
		return "", fmt.Errorf("folder for logs: %w", err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("folder for logs: %s: %w", path, err)
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	var made unix.Stat_t
	if err := unix.Fstat(fd, &made); err != nil {
		return "", fmt.Errorf("folder for logs: %w", err)
	}
	if int(made.Uid) != os.Geteuid() && made.Uid != user.UID {
		// its content would seem to be of this user
		return "", fmt.Errorf("folder for logs: %s is of uid %d: want it to be of %d, or not there", path, made.Uid, user.UID)
	}
	if err := private(dir, made, user); err != nil {
		return "", fmt.Errorf("folder for logs: %w", err)
	}
	return path, nil
}

// private gives a folder to the user and denies all others access: engines write secrets, and many
// accounts share a primary group. If an earlier attempt has made the folder, it may belong to the
// user already, with another mode.
func private(dir *os.File, made unix.Stat_t, user osuser.User) error {
	const mode = 0o700
	root := os.Geteuid() == 0
	if made.Mode&0o7777 != mode {
		// Without CAP_FOWNER a process can only change the modes of its own user's folders.
		if root && made.Uid != 0 {
			if err := dir.Chown(0, 0); err != nil {
				return err //nolint:wrapcheck // it names the folder
			}
		}
		if err := dir.Chmod(mode); err != nil {
			return err //nolint:wrapcheck // it names the folder
		}
	}
	if root {
		return dir.Chown(int(user.UID), int(user.GID)) //nolint:wrapcheck // it names the folder
	}
	return nil
}
