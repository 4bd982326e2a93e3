package launch

import (
	"os"
	"syscall"

	"github.com/bursar/bursar/agent/osuser"
)

// credential is what a child needs to become the user; nil: it is that user already. Only root can
// change users, even to the same one.
func credential(u osuser.User) *syscall.Credential {
	if os.Geteuid() != 0 && uint32(os.Geteuid()) == u.UID { //nolint:gosec // a uid
		return nil
	}
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
}
