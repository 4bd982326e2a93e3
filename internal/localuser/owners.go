package localuser

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/internal/subuid"
)

// ownerKey is a question about an owner of a range that is a number: whether it is a name, or whose
// uid it is.
type ownerKey struct {
	number string
	isName bool
}

// ownerAnswer is its answer: the name of an account, or empty.
type ownerAnswer struct {
	name string
	err  error
	read time.Time
}

// names are the accounts of this machine, for the owners of ranges. All ids of a range have the
// same owner, so it is looked up once for all of them.
func (u *Users) names(ctx context.Context) subuid.Names {
	return subuid.Names{
		NameOf: func(uid uint32) (string, error) {
			return u.ownerName(ownerKey{number: digits(uid)}, func() (string, error) { return u.NameOf(ctx, uid) })
		},
		IsName: func(name string) (bool, error) {
			has, err := u.ownerName(ownerKey{name, true}, func() (string, error) {
				_, err := u.UIDOf(ctx, name)
				return name, err
			})
			return has != "", err
		},
	}
}

// ownerName answers a question, by a lookup if the last answer is too old.
func (u *Users) ownerName(key ownerKey, lookUp func() (string, error)) (string, error) {
	u.mu.Lock()
	before, seen := u.owners[key]
	u.mu.Unlock()
	if seen && time.Since(before.read) < KnownFor {
		return before.name, before.err
	}
	name, err := lookUp() // without the lock: it may take seconds
	answer := ownerAnswer{name, err, time.Now()}
	switch {
	case errors.Is(err, osuser.ErrNoUser):
		answer.name, answer.err = "", nil
	case err != nil && seen && before.err == nil:
		answer = ownerAnswer{before.name, nil, time.Now().Add(UnsureFor - KnownFor)}
	case err != nil:
		answer = ownerAnswer{"", err, time.Now().Add(UnsureFor - KnownFor)}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.owners) >= MostUsers {
		clear(u.owners)
	}
	u.owners[key] = answer
	return answer.name, answer.err
}

// Account is the account of the requests of a user.
func (u *User) Account() string { return cmp.Or(u.Owner, strings.TrimPrefix(u.Name, UIDPrefix)) }

func digits(uid uint32) string { return strconv.FormatUint(uint64(uid), 10) }
