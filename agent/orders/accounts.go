package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bursar/bursar/internal/osuser"
)

// groupKnownFor is how long a lookup of a denied group is valid. Each launch looks up the account's
// own groups anew.
const groupKnownFor = time.Minute

// Users looks up accounts and groups; osuser.Users implements it and documents its methods.
type Users interface {
	NamedWhole(ctx context.Context, name string) (osuser.User, error)
	NameOf(ctx context.Context, uid uint32) (string, error)
	GIDsOf(ctx context.Context, group string) ([]uint32, error)
	GroupNames(ctx context.Context, user osuser.User) (names []string, nameless []uint32, err error)
}

// account returns the account of a name, if the policy allows it. If the lookup fails, no engine
// runs as the account.
func (t *Taker) account(ctx context.Context, policy *Policy, name string) (osuser.User, error) {
	if !slices.Contains(policy.Accounts, name) {
		return osuser.User{}, notListed(name)
	}
	user, err := t.Users.NamedWhole(ctx, name)
	if errors.Is(err, osuser.ErrNoUser) {
		return osuser.User{}, &RefusedError{fmt.Sprintf("account %q: not on this host", name), "an account of this host"}
	}
	if err != nil {
		return osuser.User{}, fmt.Errorf("account %q: %w", name, err)
	}
	known, err := t.Users.NameOf(ctx, user.UID)
	if err != nil && !errors.Is(err, osuser.ErrNoUser) {
		return osuser.User{}, fmt.Errorf("account %q: %w", name, err)
	}
	if err := policy.Allows(name, user, known); err != nil {
		return osuser.User{}, err
	}
	return user, t.groups.check(ctx, t.Users, policy, user)
}

// groups caches the gids of denied groups. It is safe for concurrent use.
type groups struct {
	mu    sync.Mutex
	known map[string]groupAnswer // guarded by mu
}

// groupAnswer is the result of a group's lookup: no gids if there is no such group.
type groupAnswer struct {
	gids  []uint32
	until time.Time
}

// check refuses an account in a denied group, by the group's number or name. A denied group that
// the machine does not know refuses all accounts, because an account may be in it, unless the group
// is one of the defaults.
func (g *groups) check(ctx context.Context, users Users, policy *Policy, user osuser.User) error {
	if len(policy.DeniedGroups) == 0 {
		return nil
	}
	const want = "an account in none of engines.remote.deniedGroups"
	in, nameless, err := users.GroupNames(ctx, user)
	if err != nil {
		return fmt.Errorf("account %q: %w", user.Name, err)
	}
	if len(nameless) > 0 {
		return &RefusedError{fmt.Sprintf("account %q is in the group %d, whose name this host does not know", user.Name, nameless[0]), "an account whose groups all have a name, so that they can be compared with engines.remote.deniedGroups"}
	}
	for _, name := range policy.DeniedGroups {
		plain := strings.Join(strings.Fields(name), " ")
		if slices.ContainsFunc(in, func(own string) bool { return strings.EqualFold(own, name) || strings.EqualFold(own, plain) }) {
			return &RefusedError{fmt.Sprintf("account %q is in the group %q", user.Name, name), want}
		}
		gids, err := g.gidsOf(ctx, users, name)
		if err != nil {
			return err
		}
		if len(gids) == 0 && !policy.GroupsByDefault {
			return &RefusedError{fmt.Sprintf("engines.remote.deniedGroups: this host does not know the group %q, so it cannot tell who is in it", name), "groups of this host"}
		}
		if slices.ContainsFunc(gids, func(gid uint32) bool { return gid == user.GID || slices.Contains(user.Groups, gid) }) {
			return &RefusedError{fmt.Sprintf("account %q is in the group %q", user.Name, name), want}
		}
	}
	return nil
}

// gidsOf returns the gids of a group; none if the machine does not know the group.
func (g *groups) gidsOf(ctx context.Context, users Users, name string) ([]uint32, error) {
	g.mu.Lock()
	answer, there := g.known[name]
	g.mu.Unlock()
	if there && time.Now().Before(answer.until) {
		return answer.gids, nil
	}
	gids, err := users.GIDsOf(ctx, name)
	if err != nil && !errors.Is(err, osuser.ErrNoGroup) {
		return nil, fmt.Errorf("engines.remote.deniedGroups: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil || len(g.known) > 1000 { // names of earlier settings
		g.known = make(map[string]groupAnswer)
	}
	g.known[name] = groupAnswer{gids, time.Now().Add(groupKnownFor)}
	return gids, nil
}
