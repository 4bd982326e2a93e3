package agent

import (
	"fmt"
	"os"
	"os/user"
	"path"
	"slices"
	"strconv"

	"github.com/bursar/bursar/agent/orders"
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

// forOrders is what callers elsewhere may have started, by the settings in force. A denied group
// that this machine does not have denies nobody.
func (a *Agent) forOrders() orders.Policy {
	s := a.settings()
	remote := &s.Engines.Remote
	p := orders.Policy{
		Accounts: slices.DeleteFunc(slices.Clone(remote.Accounts), func(name string) bool { return slices.Contains(s.Engines.BannedUsers, name) }),
		MinUID:   uint32(remote.MinUserID), Programs: remote.Programs, Trusted: s.TrustedUsers, AgentUID: uint32(os.Geteuid()), //nolint:gosec // checked
	}
	if !p.On() {
		return p
	}
	for _, name := range remote.DeniedGroups {
		group, err := user.LookupGroup(name)
		if err != nil {
			continue
		}
		if gid, err := strconv.ParseUint(group.Gid, 10, 32); err == nil {
			p.DeniedGroups = append(p.DeniedGroups, uint32(gid))
		}
	}
	return p
}
