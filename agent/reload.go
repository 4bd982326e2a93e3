package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/internal/reload"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/providers/host"
)

// Reload applies a new configuration as far as possible while the agent runs, and returns which
// settings it applied: others need a restart and stay. If the configuration is wrong, nothing
// changes, and the error is a *ConfigError. Only one goroutine at a time may call it, while the
// agent runs.
func (a *Agent) Reload(config Config) (reload.Changes, error) {
	if config.HostID == "" {
		config.HostID = a.settings().HostID // the default is the id that the host has
	}
	wanted, err := config.resolve()
	if err != nil {
		return reload.Changes{}, err
	}
	merged, changes := reload.Take(a.settings().Config, wanted.Config)
	next, err := merged.resolve() // old and new settings may conflict
	if err != nil {
		return reload.Changes{}, err
	}
	next.machineName = a.settings().machineName
	if len(changes.Taken) == 0 {
		return changes, nil
	}
	a.live.Store(&next)
	a.socket.Peers.Trust(next.TrustedUsers)
	if changes.Has("trustedUsers") {
		a.trusted.Again()
	}
	a.socket.SetLimits(next.Callers.limits())
	if changes.Has("labels") || changes.Has("protected") {
		a.state.Locked(func(t *tracker.Tracker) { t.Announce(next.Labels, convert.VectorToProto(next.protected)) })
	}
	a.measureDue.In(0) // the coordinator gets the new settings with the next measurement
	return changes, nil
}

// Check finds out whether an agent would start with the configuration on this machine, as far as
// that can be told without changing anything. The error is a *ConfigError.
func (c Config) Check() error {
	s, err := c.resolve()
	if err != nil {
		return err
	}
	if s.SocketGroup != "" {
		if _, err := socket.GroupNumber(s.SocketGroup, refuseSetting); err != nil {
			return err
		}
	}
	if err := s.checkPlaces(); err != nil {
		return err
	}
	if _, err := host.NewMeter(s.meterOptions()); err != nil {
		return &ConfigError{"cgroup", s.Cgroup, err.Error()}
	}
	return nil
}

// checkPlaces finds out whether the agent's folders and its socket could be made, and makes none.
func (s *settings) checkPlaces() error {
	for _, folder := range []struct{ field, value, path string }{
		{"stateDir", s.StateDir, s.StateDir}, {"socket", s.Socket, filepath.Dir(s.Socket)},
	} {
		if err := regularfile.Folder(folder.path); err != nil {
			return &ConfigError{folder.field, folder.value, "a path where a folder is or can be made (" + err.Error() + ")"}
		}
	}
	if info, err := os.Lstat(s.Socket); err == nil && info.Mode().Type() != fs.ModeSocket {
		return &ConfigError{"socket", s.Socket, "a path that is free (" + info.Mode().String() + " is there, which is no socket)"}
	}
	if err := socket.CheckFolder(s.Socket, refuseSetting); err != nil {
		return configError("socket", s.Socket, err)
	}
	return s.checkLogs()
}

// checkLogs refuses a folder of logs in which another user could put a link in place of an engine's
// folder. An agent that is not root's makes folders of its own user alone.
func (s *settings) checkLogs() error {
	if os.Geteuid() != 0 {
		return nil
	}
	err := regularfile.GuardedIn("/var/log", s.Engines.LogDir, 0)
	if wrong, is := errors.AsType[*regularfile.GuardError](err); is {
		return &ConfigError{"engines.logDir", s.Engines.LogDir, fmt.Sprintf(
			"a folder that nobody else can change or replace (%v): they could put links to others' files there", wrong)}
	}
	if err != nil { // a disk that fails may be better at the next start
		return fmt.Errorf("engines.logDir: %w", err)
	}
	return nil
}

// configError converts the error of a setting to a *ConfigError; nil if there is no error.
func configError(field, value string, err error) error {
	if is := (*ConfigError)(nil); err == nil || errors.As(err, &is) {
		return err
	}
	return &ConfigError{field, value, err.Error()}
}

// checkLogLevel checks the log level, which only the agent's program uses.
func (s *settings) checkLogLevel() error {
	var level slog.Level
	if s.LogLevel != "" && level.UnmarshalText([]byte(s.LogLevel)) != nil {
		return &ConfigError{"logLevel", s.LogLevel, "debug, info, warn or error"}
	}
	return nil
}
