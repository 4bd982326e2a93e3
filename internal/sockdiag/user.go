package sockdiag

import (
	"os/user"
	"strconv"
)

// UserName is the name of a socket's user, or the number of one that has none.
func UserName(uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(number); err == nil && u.Username != "" {
		return u.Username
	}
	return number
}
