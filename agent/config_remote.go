package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"

	"github.com/bursar/bursar/agent/orders"
	"github.com/bursar/bursar/internal/osuser"
)

// defaultDeniedGroups give rights over the machine.
func defaultDeniedGroups() []string {
	return []string{"root", "sudo", "wheel", "admin", "adm", "disk", "shadow", "docker", "lxd", "libvirt", "systemd-journal"}
}

// check fills in and checks what callers elsewhere may have started.
func (c *RemoteConfig) check() error {
	c.MinUserID = orDefault(c.MinUserID, DefaultMinUserID)
	if c.DeniedGroups == nil {
		c.DeniedGroups = defaultDeniedGroups()
	}
	if c.MinUserID < 1 || c.MinUserID >= 1<<32-1 {
		return &ConfigError{"engines.remote.minUserId", strconv.FormatInt(c.MinUserID, 10), "1 to 4294967294; 1 allows every account but root"}
	}
	if i := slices.IndexFunc(c.Accounts, func(name string) bool { return name == "root" || name == "*" }); i >= 0 {
		return &ConfigError{fmt.Sprintf("engines.remote.accounts[%d]", i), c.Accounts[i], "the name of one account other than root"}
	}
	if i := slices.IndexFunc(c.Programs, func(program string) bool { return !path.IsAbs(program) || path.Clean(program) != program }); i >= 0 {
		return &ConfigError{fmt.Sprintf("engines.remote.programs[%d]", i), c.Programs[i], "an absolute path without . and .."}
	}
	return nil
}

// forOrders is what callers elsewhere may have started, by the settings in force.
func (a *Agent) forOrders() orders.Policy {
	s := a.settings()
	remote, own := &s.Engines.Remote, uint32(os.Geteuid()) //nolint:gosec // a uid
	if a.deps.AsItself {
		own = 0 // refused anyway
	}
	return orders.Policy{
		Accounts: slices.DeleteFunc(slices.Clone(remote.Accounts), func(name string) bool { return slices.Contains(s.Engines.BannedUsers, name) }),
		MinUID:   uint32(remote.MinUserID), Programs: remote.Programs, Trusted: s.TrustedUsers, AgentUID: own, //nolint:gosec // checked
		DeniedGroups: remote.DeniedGroups, GroupsByDefault: slices.Equal(remote.DeniedGroups, defaultDeniedGroups()),
	}
}

// UnknownGroups returns those of the denied groups, by their place in the list, that the machine
// does not know: then no engine is started from elsewhere. The defaults are no such groups. It asks
// the machine's name service, and takes as long as that.
func (c Config) UnknownGroups(ctx context.Context) (unknown []int) {
	if len(c.Engines.Remote.Accounts) == 0 {
		return nil
	}
	for i, name := range c.Engines.Remote.DeniedGroups {
		if _, err := (osuser.Users{}).GIDsOf(ctx, name); errors.Is(err, osuser.ErrNoGroup) {
			unknown = append(unknown, i)
		}
	}
	return unknown
}
