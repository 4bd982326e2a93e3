package agent

import (
	"context"
	"errors"
	"log/slog"
	"strconv"

	"github.com/bursar/bursar/internal/osuser"
)

// UnknownUsers returns those of TrustedUsers, by their place in the list, whose names the machine
// does not know. They are no error: an account may come later. It asks the machine's name service,
// and takes as long as that.
func (c Config) UnknownUsers(ctx context.Context) []int {
	return unknownUsers(ctx, c.TrustedUsers, osuser.Users{}.Named)
}

// unknownUsers passes over uids, which need no account, and names that the name service cannot
// look up now.
func unknownUsers(ctx context.Context, users []string, find func(context.Context, string) (osuser.User, error)) (unknown []int) {
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

// trustedLoop warns of trusted users that the machine does not know, at the start and when the
// list has changed. Nothing else waits for the name service.
type trustedLoop struct {
	users   func() []string
	find    func(context.Context, string) (osuser.User, error)
	changed chan struct{} // one element
	log     *slog.Logger
}

// again has the users looked up once more.
func (l *trustedLoop) again() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *trustedLoop) run(ctx context.Context) error {
	for {
		users := l.users()
		for _, i := range unknownUsers(ctx, users, l.find) {
			l.log.Warn("a trusted user is not known to this machine", "field", "trustedUsers["+strconv.Itoa(i)+"]", "user", users[i])
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.changed:
		}
	}
}
