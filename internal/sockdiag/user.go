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

// UserID is the uid of an account's name. Digits are a name, too.
func UserID(name string) (uid uint32, ok bool) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, false
	}
	number, err := strconv.ParseUint(u.Uid, 10, 32)
	return uint32(number), err == nil
}

func userName(number string, byUID, byName func(string) (*user.User, error)) string {
	if u, err := byUID(number); err == nil && u.Username != "" {
		return u.Username
	}
	_, err := byName(number)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		return number
	}
	return UIDPrefix + number
}

// UIDPrefix begins the result of UserName if the number alone could be another account.
const UIDPrefix = "uid:"
