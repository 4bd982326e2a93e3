package sockdiag

import (
	"errors"
	"os/user"
	"strconv"
)

// UserName returns the name of a socket's user, or the uid if the user has no name. If another
// account has this number as its name, UserName returns "uid:" and the number, which is no
// account's name.
func UserName(uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	return userName(number, user.LookupId, user.Lookup)
}

func userName(number string, byUID, byName func(string) (*user.User, error)) string {
	if u, err := byUID(number); err == nil && u.Username != "" {
		return u.Username
	}
	_, err := byName(number)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		return number
	}
	return uidPrefix + number
}

// uidPrefix begins the result of UserName if the number alone could name another account.
const uidPrefix = "uid:"
