package agent

import (
	"os"
	"path/filepath"
)

const (
	// DefaultLogDir is where the output of launched engines goes.
	DefaultLogDir = "/var/log/bursar/engines"
	// packagedKeeper is where packages put the keeper.
	packagedKeeper = "/usr/libexec/bursar/bursar-keeper"
	// keeperName is the keeper's name next to the agent's own program.
	keeperName = "bursar-keeper"
	// recordsName is the folder of records below the state directory.
	recordsName = "engines"
)

// resolveLaunch fills in the keeper, and where the output of engines goes.
func (s *settings) resolveLaunch() error {
	s.Engines.Keeper = orDefault(s.Engines.Keeper, standardKeeper())
	s.Engines.LogDir = orDefault(s.Engines.LogDir, DefaultLogDir)
	for _, check := range []struct{ field, path string }{{"engines.keeper", s.Engines.Keeper}, {"engines.logDir", s.Engines.LogDir}} {
		if !filepath.IsAbs(check.path) {
			return &ConfigError{check.field, check.path, "an absolute path"}
		}
	}
	return nil
}

// standardKeeper is the one that was built or installed with this program.
func standardKeeper() string {
	if own, err := os.Executable(); err == nil {
		sibling := filepath.Join(filepath.Dir(own), keeperName)
		if _, err := os.Stat(sibling); err == nil {
			return sibling
		}
	}
	return packagedKeeper
}
