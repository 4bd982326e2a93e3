package callers

import (
	"context"
	"errors"
	"log/slog"
	"strconv"

	"github.com/bursar/bursar/internal/osuser"
)

// UnknownUsers returns those of a list of trusted users, by their place in it, whose names the
// machine does not know. It passes over uids, which need no account, and names that the name
// service cannot look up now.
func UnknownUsers(ctx context.Context, users []string, find func(context.Context, string) (osuser.User, error)) (unknown []int) {
	for i, user := range users {
		if _, err := strconv.ParseUint(user, 10, 32); err == nil {
			continue
		}
		if _, err := find(ctx, user); errors.Is(err, osuser.ErrNoUser) {
			unknown = append(unknown, i)
		}
	}
	return unknown
}

// TrustedLoop warns of trusted users that the machine does not know, at the start and when the
// list has changed. Nothing else waits for the name service.
type TrustedLoop struct {
	users   func() []string
	find    func(context.Context, string) (osuser.User, error)
	changed chan struct{} // one element
	log     *slog.Logger
}

// NewTrustedLoop returns the loop over a list of users, which may change. find looks one up.
func NewTrustedLoop(users func() []string, find func(context.Context, string) (osuser.User, error), log *slog.Logger) *TrustedLoop {
	return &TrustedLoop{users: users, find: find, changed: make(chan struct{}, 1), log: log}
}

// Again has the users looked up once more.
func (l *TrustedLoop) Again() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Run looks them up until ctx ends.
func (l *TrustedLoop) Run(ctx context.Context) error {
	for {
		users := l.users()
		for _, i := range UnknownUsers(ctx, users, l.find) {
			l.log.Warn("a trusted user is not known to this machine", "field", "trustedUsers["+strconv.Itoa(i)+"]", "user", users[i])
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.changed:
		}
	}
}
