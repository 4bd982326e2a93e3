package agent

import (
	"os"
	"path"
	"strings"

	"github.com/bursar/bursar/agent/unit"
	"github.com/bursar/bursar/providers/host"
)

// The ways to give engines cgroups.
const (
	cgroupsAuto    = "auto"
	cgroupsSystemd = "systemd"
	cgroupsDirect  = "direct"
	cgroupsNone    = "none"
)

// meterOptions are how this machine is measured.
func (s *settings) meterOptions() host.Options {
	return host.Options{Cgroup: s.Cgroup, CgroupOrAbove: s.Cgroup == unit.SliceCgroup, SafetyBytes: s.safety}
}

// settleCgroups fills in how engines get cgroups of their own, and whose limits are the host's.
func (s *settings) settleCgroups() error {
	if os.Getenv("NOTIFY_SOCKET") != "" { // systemd has started this as a service, in a cgroup with limits for an agent
		s.Cgroup = orDefault(s.Cgroup, unit.SliceCgroup)
	}
	s.Engines.Cgroups = orDefault(s.Engines.Cgroups, cgroupsAuto)
	switch s.Engines.Cgroups {
	case cgroupsAuto, cgroupsSystemd, cgroupsDirect, cgroupsNone:
	default:
		return &ConfigError{"engines.cgroups", s.Engines.Cgroups, "auto, systemd, direct or none"}
	}
	if name := s.Engines.Cgroup; name != "" && (!path.IsAbs(name) || path.Clean(name) != name || strings.HasPrefix(name, "/..")) {
		return &ConfigError{"engines.cgroup", name, "the path of a cgroup in its hierarchy, such as /engines"}
	}
	return nil
}
