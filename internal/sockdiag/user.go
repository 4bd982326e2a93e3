package sockdiag

import (
	"errors"
	"os/user"
	"strconv"
)

// UserName is the name of a socket's user, or the number of one that has none. If that number is
// the name of another account, it is "uid:" and the number, which is nobody's name.
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

// uidPrefix begins the result of UserName if the number alone could be another account.
const uidPrefix = "uid:"
