package agent

import (
	"os"
	"path"
	"strings"

	"github.com/bursar/bursar/agent/contain"
	"github.com/bursar/bursar/agent/unit"
	"github.com/bursar/bursar/providers/host"
)

// meterOptions are how this machine is measured.
func (s *settings) meterOptions() host.Options {
	return host.Options{Cgroup: s.Cgroup, CgroupOrAbove: s.Cgroup == unit.SliceCgroup, SafetyBytes: s.safety}
}

// resolveCgroups fills in how engines get cgroups of their own, and whose limits are the host's.
func (s *settings) resolveCgroups() error {
	// Then systemd has started this as a service, in a cgroup with limits for an agent.
	if os.Getenv("NOTIFY_SOCKET") != "" {
		s.Cgroup = orDefault(s.Cgroup, unit.SliceCgroup)
	}
	s.Engines.Cgroups = orDefault(s.Engines.Cgroups, contain.Auto)
	switch s.Engines.Cgroups {
	case contain.Auto, contain.Systemd, contain.Direct, contain.None:
	default:
		return &ConfigError{"engines.cgroups", s.Engines.Cgroups, "auto, systemd, direct or none"}
	}
	if name := s.Engines.Cgroup; name != "" && (!path.IsAbs(name) || path.Clean(name) != name || strings.HasPrefix(name, "/..")) {
		return &ConfigError{"engines.cgroup", name, "the path of a cgroup in its hierarchy, such as /engines"}
	}
	return nil
}

// newCgroups returns the cgroups of engines.
func (a *Agent) newCgroups() (*contain.Cgroups, error) {
	return contain.New(contain.Options{ //nolint:wrapcheck // it says what it is about
		Log: a.log, Metrics: a.deps.Metrics, Proc: a.deps.Proc, Driver: a.deps.Cgroups, KernelLog: a.deps.KernelLog, Direct: a.direct,
		Settings: func() contain.Settings {
			s := a.settings()
			return contain.Settings{Way: s.Engines.Cgroups, Parent: s.Engines.Cgroup, Policies: s.policies}
		},
		Locked: a.state.Locked, ScheduleSave: a.state.ScheduleSave,
		Launching: func(id string) bool { return a.engines.Launching(id) },
		Stopped:   func(id string) bool { return a.engines.Stopped(id) },
		Identify:  a.deps.Meter.Identify,
	})
}
