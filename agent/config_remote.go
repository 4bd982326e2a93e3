package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bursar/bursar/agent/orders"
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/osuser"
)

// defaultDeniedGroups give rights over the machine.
func defaultDeniedGroups() []string {
	return []string{"root", "sudo", "wheel", "admin", "adm", "disk", "shadow", "docker", "lxd", "libvirt", "systemd-journal"}
}

// check fills in and checks the settings for launches by remote callers.
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
	return c.Environment.check()
}

// check checks the names of variables. It shows no value, which may be a secret all the same.
func (c *RemoteEnvironmentConfig) check() error {
	const field = "engines.remote.environment."
	for i, pattern := range c.Allowed {
		if name := strings.TrimSuffix(pattern, "*"); pattern == "" || strings.ContainsAny(name, "*=\x00") {
			return &ConfigError{fmt.Sprintf("%sallowed[%d]", field, i), pattern, "the name of a variable, or its beginning and a *: LC_*"}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Set)) {
		switch {
		case name == "" || len(name) > maxVariableName || strings.ContainsAny(name, "=\x00"):
			return &ConfigError{field + "set", name, fmt.Sprintf("names of 1 to %d bytes without =", maxVariableName)}
		case strings.HasPrefix(name, "BURSAR_LABEL_") || slices.Contains([]string{client.EnvAllocationID, client.EnvMemoryBytes, client.EnvCPUMillis}, name):
			return &ConfigError{field + "set", name, "another name: Bursar sets this variable for each engine"}
		case len(c.Set[name]) > maxVariableValue || strings.ContainsRune(c.Set[name], 0):
			return &ConfigError{field + "set." + name, "its value", fmt.Sprintf("at most %d bytes without a zero byte", maxVariableValue)}
		}
	}
	return nil
}

// The bounds of a variable, in bytes: those of a launch.
const (
	maxVariableName  = 1024
	maxVariableValue = 128 << 10
)

// interpreters lists programs that execute their arguments, by the beginning of their names.
func interpreters() []string {
	return []string{
		"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "busybox", "env", "python", "perl", "ruby", "node", "php", "lua",
		"java", "awk", "gawk", "mawk", "find", "xargs", "nice", "nohup", "timeout", "setsid", "stdbuf", "strace", "gdb", "sudo", "su", "ssh",
	}
}

// notes names programs of the list with which a caller executes any other.
func (c *RemoteConfig) notes() (notes []string) {
	for i, program := range c.Programs {
		name := strings.TrimRight(path.Base(program), "0123456789.")
		if slices.Contains(interpreters(), name) {
			notes = append(notes, fmt.Sprintf("engines.remote.programs[%d]: %s executes what its arguments say, so the list does not restrict what callers elsewhere run", i, program))
		}
	}
	return notes
}

// forOrders returns the policy for launches by remote callers, from the settings in force.
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
		Variables: remote.Environment.Allowed, Set: remote.Environment.Set,
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
