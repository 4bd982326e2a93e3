package launch

import (
	"os"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/internal/osuser"
)

// user is what a keeper finds in its environment to become the user; none: it is that user already.
// Only root can change users, even to the same one.
func user(u osuser.User) []string {
	if os.Geteuid() != 0 && uint32(os.Geteuid()) == u.UID { //nolint:gosec // a uid
		return nil
	}
	return []string{keeper.As(u.UID, u.GID, u.Groups)}
}
