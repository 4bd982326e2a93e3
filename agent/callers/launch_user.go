package callers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/refusal"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/internal/osuser"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// launchUser returns the account that an engine runs as, if the caller may start engines as that.
// A named account is looked up by its name, also if that is a number.
func (a *API) launchUser(ctx context.Context, c *socket.Caller, named string) (osuser.User, error) {
	own, err := a.ownAccount(ctx, c)
	if err != nil {
		return osuser.User{}, err
	}
	user := own
	switch {
	case named == "" || named == own.Name:
	case !c.Trusted:
		return osuser.User{}, mayNotLaunch(named, fmt.Sprintf("uid %d may not start engines as another account", c.UID),
			"the caller's own account, "+own.Name+"; another one is for trusted callers")
	default:
		user, err = a.users.Named(ctx, named)
		if errors.Is(err, osuser.ErrNoUser) {
			return osuser.User{}, refusal.Invalid("user", named, "the name of an account of this machine; a number is a name, too, and never a uid")
		}
		if err != nil {
			return osuser.User{}, connect.NewError(connect.CodeUnavailable, err)
		}
	}
	if err := a.mayRunAs(ctx, c, user); err != nil {
		return osuser.User{}, err
	}
	if agent := uint32(os.Geteuid()); agent != 0 && user.UID != agent { //nolint:gosec // a uid
		return osuser.User{}, connect.NewError(connect.CodeFailedPrecondition,
			fmt.Errorf("user: %q: the agent runs as uid %d and can start engines as that alone: want an agent that is root", user.Name, agent))
	}
	return user, nil
}

// ownAccount is the caller's. A caller that has no account is its uid, with the group that it calls
// with.
func (a *API) ownAccount(ctx context.Context, c *socket.Caller) (osuser.User, error) {
	own, err := a.users.OfUID(ctx, c.UID)
	switch {
	case err == nil:
		return own, nil
	case !errors.Is(err, osuser.ErrNoUser):
		return osuser.User{}, connect.NewError(connect.CodeUnavailable, err)
	case c.UID == uint32(os.Geteuid()): //nolint:gosec // a uid
		return osuser.Self(), nil // in a container, for example
	}
	gid, ok := socket.GroupOf(ctx)
	if !ok || gid == 0 {
		return osuser.User{}, mayNotLaunch("", fmt.Sprintf("uid %d has no account on this machine, and calls with root's group or an unknown one", c.UID),
			"a group of its own, or an account")
	}
	return osuser.Nameless(c.Actor.Users[0], c.UID, gid), nil
}

// mayRunAs refuses accounts that the configuration keeps from engines: root for all others, those
// that are banned, and those of the system unless the caller is that account.
func (a *API) mayRunAs(ctx context.Context, c *socket.Caller, user osuser.User) error {
	accounts := a.settings()
	names := []string{user.Name}
	// The first account of a uid can have another name.
	if first, err := a.users.NameOf(ctx, user.UID); err == nil {
		names = append(names, first)
	}
	in := func(list []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(list, name) })
	}
	switch {
	case user.UID == 0 && c.UID != 0:
		return mayNotLaunch(user.Name, fmt.Sprintf("uid %d may not start engines as root", c.UID), "another account; root is for root alone")
	case in(accounts.BannedUsers):
		return mayNotLaunch(user.Name, "no engine runs as this account (engines.bannedUsers of the agent)", "another account")
	case user.UID != c.UID && int64(user.UID) < accounts.MinUserID && !slices.Contains(accounts.SystemUsers, user.Name):
		return mayNotLaunch(user.Name, fmt.Sprintf("uid %d is an account of the system", user.UID),
			fmt.Sprintf("one with a uid of at least %d (engines.minUserId of the agent), or one in engines.systemUsers there", accounts.MinUserID))
	}
	return nil
}

func mayNotLaunch(user, why, want string) error {
	return refusal.WithDetail(connect.NewError(connect.CodePermissionDenied, fmt.Errorf("user: %q: %s: want %s", user, why, want)),
		&bursarv1.InvalidField{Field: "user", Value: user, Want: want})
}
