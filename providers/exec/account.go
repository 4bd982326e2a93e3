package exec

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/providers"
)

const wantUser = "an unprivileged user of this machine, such as nobody; never root"

// machine describes the machine of this process. Tests replace it.
type machine struct {
	uid int
	// mayChange: the process may run a program as another user, and kill it.
	mayChange bool
	// lookUp finds a user by name or uid.
	lookUp func(name string) (*user.User, error)
	// variable looks up an environment variable of this process.
	variable func(name string) (string, bool)
}

func thisMachine() machine {
	return machine{uid: os.Geteuid(), mayChange: mayChange(), lookUp: lookUp, variable: os.LookupEnv}
}

// mayChange reports whether this process can switch to another user with that user's groups, and
// kill another user's process.
func mayChange() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	needed := uint32(1)<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL
	return data[0].Effective&needed == needed
}

// lookUp finds a user by name, or by uid.
func lookUp(name string) (*user.User, error) {
	found, err := user.Lookup(name)
	_, unknown := errors.AsType[user.UnknownUserError](err)
	if _, wrong := strconv.ParseUint(name, 10, 32); unknown && wrong == nil {
		found, err = user.LookupId(name)
	}
	return found, err //nolint:wrapcheck // names the user
}

// account returns the user that a command runs as; nil for the user of this process. The error is a
// *providers.SettingError.
func (m machine) account(name string) (*syscall.Credential, error) {
	wrong := func(want string) error {
		return &providers.SettingError{Setting: settingUser, Value: name, Want: want}
	}
	if name == "" {
		if m.uid == 0 {
			return nil, wrong("the user that the command runs as, such as nobody: this coordinator runs as root, which a command never does")
		}
		return nil, nil //nolint:nilnil // as this process
	}
	found, err := m.lookUp(name)
	if err != nil {
		return nil, wrong(fmt.Sprintf("%s (%v)", wantUser, err))
	}
	uid, errUID := strconv.ParseUint(found.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(found.Gid, 10, 32)
	switch {
	case errUID != nil || errGID != nil || uid == 0:
		return nil, wrong(wantUser)
	case int(uid) == m.uid:
		return nil, nil //nolint:nilnil // as this process
	case !m.mayChange:
		return nil, wrong(fmt.Sprintf("no user, or the one with uid %d: this coordinator runs as that one, "+
			"and without CAP_SETUID, CAP_SETGID and CAP_KILL it can run commands as no other (docs/providers.md says how it can)", m.uid))
	}
	if gid == 0 {
		return nil, wrong(wantUser + ", nor of root's group")
	}
	credential := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	groups, err := found.GroupIds()
	if err != nil {
		return nil, wrong(fmt.Sprintf("a user whose groups can be read (%v)", err))
	}
	for _, group := range groups {
		if id, err := strconv.ParseUint(group, 10, 32); err == nil && id != 0 {
			credential.Groups = append(credential.Groups, uint32(id))
		}
	}
	return credential, nil
}
