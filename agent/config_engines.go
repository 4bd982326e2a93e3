package agent

import "time"

// EnginesConfig says how engines are kept on this host.
type EnginesConfig struct {
	// Cgroups is how an engine gets a cgroup of its own: "systemd" by units, "direct" below Cgroup, "none" not at all. Default "auto":
	// systemd where it runs, else direct where the hierarchy can be written, else none.
	Cgroups string `yaml:"cgroups"`
	// Cgroup is the cgroup below which direct makes those of engines. Default: the parent of the agent's own.
	Cgroup string `yaml:"cgroup"`
	// Keeper is the program that stands over a launched engine. Default: bursar-keeper beside the agent's own program, else
	// /usr/libexec/bursar/bursar-keeper.
	Keeper string `yaml:"keeper"`
	// LogDir is where the output of launched engines goes that did not say where: a folder each. Default /var/log/bursar/engines.
	LogDir string `yaml:"logDir"`
	// Policies say what is done about engines that use more than they are entitled to; the first that matches counts. Default, and for
	// engines that none matches: warn.
	Policies []PolicyConfig `yaml:"policies"`
}

// PolicyConfig is what is done about some engines.
type PolicyConfig struct {
	// Match selects engines by labels, each a value or "*" for any that is there. Default: all engines.
	Match map[string]string `yaml:"match"`
	// OnOverUse is "observe" to show it, "warn" to log it too, "limit" to have the kernel keep the engine to its entitlement, or "kill" to
	// stop it after Grace. Default warn.
	OnOverUse string `yaml:"onOverUse"`
	// Tolerance is how much more than its entitlement an engine may use, as a percentage. Default 10%.
	Tolerance string `yaml:"tolerance"`
	// Grace is how long over-use of memory goes on before kill stops the engine. Default 30s.
	Grace time.Duration `yaml:"grace"`
	// StopGrace is the time between SIGTERM and SIGKILL then. Default 10s.
	StopGrace time.Duration `yaml:"stopGrace"`
	// Cgroup gives the engine a cgroup of its own, also where it was started by somebody else. Default: where OnOverUse is limit.
	Cgroup bool `yaml:"cgroup"`
}
