package launch

import (
	"errors"
	"os"
	"syscall"
)

// User is an account of this machine.
type User struct {
	Name     string
	UID, GID uint32
	// Groups are all of its groups, GID too.
	Groups      []uint32
	Home, Shell string
}

// ErrNoUser says that the machine knows no such account.
var ErrNoUser = errors.New("no such user")

// credential is what a child needs to become the user; nil: it is that user already. Only root can
// change users, even to the same one.
func (u User) credential() *syscall.Credential {
	if os.Geteuid() != 0 && uint32(os.Geteuid()) == u.UID { //nolint:gosec // a uid
		return nil
	}
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
}
