package launch

import (
	"os"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/internal/osuser"
)

// user returns the variables from which a keeper learns the user that it must become; none if it
// runs as that user already. Only root can change users, even to the same one.
func user(u osuser.User) []string {
	if os.Geteuid() != 0 && uint32(os.Geteuid()) == u.UID { //nolint:gosec // a uid
		return nil
	}
	return []string{keeper.As(u.UID, u.GID, u.Groups)}
}
