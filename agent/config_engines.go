package agent

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/label"
)

// EnginesConfig says how engines are kept on this host.
type EnginesConfig struct {
	// Cgroups is how an engine gets a cgroup of its own: "systemd" makes a unit, "direct" makes it
	// below Cgroup, "none" makes none. Default "auto": systemd if it runs here, else direct if the
	// agent can write to the hierarchy, else none.
	Cgroups string `yaml:"cgroups" reload:"start"`
	// Cgroup is the cgroup below which "direct" makes those of engines. Default: the parent of the
	// agent's own.
	Cgroup string `yaml:"cgroup" reload:"start"`
	// Keeper is the program that starts a launched engine and waits for its end. Default:
	// bursar-keeper next to the agent's own program, else /usr/libexec/bursar/bursar-keeper.
	Keeper string `yaml:"keeper" reload:"start"`
	// LogDir is the directory for the output of launched engines whose request names no folder.
	// Each engine gets a folder in it. Default /var/log/bursar/engines. An agent that runs as root
	// refuses a directory that others own or may write to.
	LogDir string `yaml:"logDir" reload:"start"`
	// MinUserID is the least uid of an account that a trusted caller may start engines as. It does
	// not bind a caller that starts engines as itself. Default 1000; 1 allows every account but
	// root, which is for root alone.
	MinUserID int64 `yaml:"minUserId" reload:"live"`
	// SystemUsers are names of accounts with a lesser uid that a trusted caller may start engines
	// as all the same, such as hadoop. Default: none.
	SystemUsers []string `yaml:"systemUsers" reload:"live"`
	// BannedUsers are names of accounts that no engine runs as, not even for themselves. They are
	// names, also if they are numbers. Default: hdfs, yarn, mapred and bin, as in YARN; [] bans
	// none.
	BannedUsers []string `yaml:"bannedUsers" reload:"live"`
	// Remote says which engines a coordinator may have started on this host, for callers that are
	// elsewhere. Default: none. Whoever controls a coordinator runs code as exactly the accounts
	// that it names.
	Remote RemoteConfig `yaml:"remote"`
	// Policies say what is done about engines that use more than they are entitled to, and about
	// those whose main process has ended. The first that matches counts. Default, also for engines
	// that none matches: warn, and keep.
	Policies []PolicyConfig `yaml:"policies" reload:"live"`
}

// RemoteConfig says which engines callers elsewhere may have started on this host.
type RemoteConfig struct {
	// Accounts are the names of the accounts that such engines may run as, each by itself; root and
	// trustedUsers never may. Default: none, and no engine is started from elsewhere.
	Accounts []string `yaml:"accounts" reload:"live"`
	// MinUserID is the least uid of such an account. Default 1000; 1 allows every account but root.
	MinUserID int64 `yaml:"minUserId" reload:"live"`
	// DeniedGroups are names of groups that no such account may be in, not even as one of many.
	// Groups of LDAP count. A group that the host does not know refuses every launch.
	// Default: those that give rights over the machine (root, sudo, wheel, admin, adm, disk,
	// shadow, docker, lxd, libvirt, systemd-journal), as far as the host has them; [] denies none.
	DeniedGroups []string `yaml:"deniedGroups" reload:"live"`
	// Programs are the absolute paths of the programs that may be started, and that may look
	// whether an engine is ready. With a list no script is started, Environment.Allowed has another
	// default, and a program that its account can change is refused. Arguments and the working
	// directory stay the caller's: a shell in the list allows everything. Default: any.
	Programs []string `yaml:"programs" reload:"live"`
	// Environment says which variables such engines have.
	Environment RemoteEnvironmentConfig `yaml:"environment"`
}

// RemoteEnvironmentConfig says which variables engines have that callers elsewhere have started.
type RemoteEnvironmentConfig struct {
	// Allowed are the names of the variables that a launch may set, by itself or as a secret; LC_*
	// stands for all that begin with LC_. A launch that sets another one is refused. Default: any;
	// with a list of programs it is LANG, LC_* and TZ, because variables such as LD_PRELOAD, PATH
	// or BASH_ENV have a program execute other code. [] allows none.
	Allowed []string `yaml:"allowed" reload:"live"`
	// Set are variables that every such engine has, such as SPARK_HOME. They count as set for a
	// launch that requires them. A launch may replace one if it may set a variable of that name.
	// Users of engines can read them. Default: none.
	Set map[string]string `yaml:"set" reload:"live"`
}

// PolicyConfig is what is done about some engines.
type PolicyConfig struct {
	// Match selects engines by labels, each a value or "*" for any, as the selector of a quota
	// does. Default: all engines.
	Match map[string]string `yaml:"match"`
	// OnOverUse is "observe" to show it, "warn" to log it too, "limit" to have the kernel keep the
	// engine to its entitlement, or "kill" to stop it after Grace. Default warn.
	OnOverUse string `yaml:"onOverUse"`
	// Tolerance is how much more than its entitlement an engine may use, as a percentage of it up
	// to 1000%. Default 10%; "0%" is none.
	Tolerance string `yaml:"tolerance"`
	// Grace is how long over-use of memory goes on before kill stops the engine, from 1s to 24h.
	// Default 30s.
	Grace time.Duration `yaml:"grace"`
	// StopGrace is the time between SIGTERM and SIGKILL when a policy stops the engine, at most 1h.
	// Default 10s.
	StopGrace time.Duration `yaml:"stopGrace"`
	// Cgroup says whether an engine that was not started by the agent is moved to a cgroup of its
	// own: true moves it, false leaves it. Default: true if OnOverUse is limit; else it is moved
	// unless it would leave a limit or a container.
	Cgroup *bool `yaml:"cgroup"`
	// OnLeaderEnd says what is done if the engine's main process ends and other processes of it
	// live on: "keep" leaves them, and the engine keeps its allocation until the last one has
	// ended; "stop" stops them, with StopGrace. Default keep.
	OnLeaderEnd string `yaml:"onLeaderEnd"`
}

// maxTolerance is in thousandths, of a text that says at most 1000%.
const maxTolerance = 10_000

// checkPolicies reads and checks the policies for over-use.
func (s *settings) checkPolicies() error {
	s.policies = make(policy.Set, len(s.Engines.Policies))
	for i, c := range s.Engines.Policies {
		p, err := c.parse()
		if err != nil {
			err.Field = fmt.Sprintf("engines.policies[%d].%s", i, err.Field)
			return err
		}
		s.policies[i] = p
	}
	return nil
}

// policyNotes names policies whose labels were probably meant to be others: such a policy applies
// to no engine.
func (s *settings) policyNotes() (notes []string) {
	for i, c := range s.Engines.Policies {
		for _, key := range slices.Sorted(maps.Keys(c.Match)) {
			if near := label.Near(key, label.WellKnown()); near != "" {
				notes = append(notes, fmt.Sprintf("engines.policies[%d].match: label %s: did you mean %s? The policy applies only to engines with a label %s", i, key, near, key))
			}
		}
	}
	return notes
}

// parse reads a policy; of an error the field is named within it.
func (c PolicyConfig) parse() (policy.Policy, *ConfigError) {
	match, err := label.NewSelector(c.Match)
	if err != nil {
		return policy.Policy{}, &ConfigError{"match", fmt.Sprint(c.Match), err.Error()}
	}
	action, err := policy.ParseAction(orDefault(c.OnOverUse, policy.DefaultAction.String()))
	if err != nil {
		return policy.Policy{}, &ConfigError{"onOverUse", c.OnOverUse, "observe, warn, limit or kill"}
	}
	leaderEnd, err := policy.ParseLeaderEnd(c.OnLeaderEnd)
	if err != nil {
		return policy.Policy{}, &ConfigError{"onLeaderEnd", c.OnLeaderEnd, "keep or stop"}
	}
	p := policy.Policy{
		OnLeaderEnd: leaderEnd,
		Match:       match, Action: action, Tolerance: policy.DefaultTolerance,
		Grace: orDefault(c.Grace, policy.DefaultGrace), StopGrace: orDefault(c.StopGrace, policy.DefaultStopGrace),
	}
	switch {
	case action == policy.Limit || c.Cgroup != nil && *c.Cgroup:
		p.Cgroup = policy.CgroupAlways
	case c.Cgroup != nil:
		p.Cgroup = policy.CgroupNever
	}
	if c.Tolerance != "" {
		tolerance, ok := parseTolerance(c.Tolerance)
		if !ok {
			return policy.Policy{}, &ConfigError{"tolerance", c.Tolerance, "a percentage from 0% to 1000%, such as 10% or 2.5%"}
		}
		p.Tolerance = tolerance
	}
	if p.Grace < time.Second || p.Grace > 24*time.Hour {
		return policy.Policy{}, &ConfigError{"grace", c.Grace.String(), "1s to 24h"}
	}
	if p.StopGrace < 0 || p.StopGrace > time.Hour { // as StopRequest takes it
		return policy.Policy{}, &ConfigError{"stopGrace", c.StopGrace.String(), "0 to 1h"}
	}
	return p, nil
}

// parseTolerance reads a percentage into thousandths: there is at most one digit behind the point.
func parseTolerance(text string) (perMille int64, ok bool) {
	number, isPercent := strings.CutSuffix(text, "%")
	whole, tenths, _ := strings.Cut(number, ".")
	if tenths == "" && !strings.Contains(number, ".") {
		tenths = "0"
	}
	if !isPercent || len(tenths) != 1 {
		return 0, false
	}
	n, err := strconv.ParseUint(whole+tenths, 10, 32)
	if err != nil || whole == "" || n > maxTolerance {
		return 0, false
	}
	return int64(n), true
}
