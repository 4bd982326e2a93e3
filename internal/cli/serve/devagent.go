package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/internal/yamlfile"
)

// devAgentConfig is the configuration of dev's agent: that of a file, if there is one, with the
// settings that dev makes itself. The file is one that an agent takes, and is read as strictly. It
// must not have the settings that dev decides.
func devAgentConfig(ctx context.Context, f devFlags, coordinator string) (agent.Config, *configuration, error) {
	var config agent.Config
	loaded := &configuration{set: map[string]string{"socket": "--agent-socket", "stateDir": "--data-dir", "coordinators": "--listen"}}
	if f.agentConfig != "" {
		data, err := regularfile.Read(f.agentConfig, yamlfile.MaxBytes)
		if err != nil {
			return config, nil, failure.Config(fmt.Errorf("--agent-config: %w", err))
		}
		loaded.file = f.agentConfig
		if loaded.doc, err = yamlfile.Parse(f.agentConfig, data); err == nil {
			err = loaded.doc.Decode(&config)
		}
		if err != nil {
			return config, nil, failure.Config(err)
		}
		if err := devDecides(config, loaded); err != nil {
			return config, nil, err
		}
	}
	config.Coordinators, config.Socket, config.StateDir = []string{coordinator}, f.socket, filepath.Join(f.dataDir, "agent")
	if config.Tick == time.Duration(0) {
		config.Tick = devTick
	}
	if config.Engines.LogDir == "" {
		config.Engines.LogDir = filepath.Join(f.dataDir, "engines")
		loaded.set["engines.logDir"] = "--data-dir"
	}
	devRemote(ctx, &config.Engines.Remote)
	if _, err := config.WithDefaults(); err != nil {
		return config, nil, loaded.explain(err)
	}
	return config, loaded, nil
}

// devRemote lets dev's coordinator start engines as the user that runs dev, unless the file says as
// whom: that user may start them anyway. As root, it is the user of sudo, and otherwise nobody.
func devRemote(ctx context.Context, remote *agent.RemoteConfig) {
	if remote.Accounts != nil {
		return
	}
	name := os.Getenv("SUDO_USER")
	if uid := os.Geteuid(); uid != 0 {
		name, _ = osuser.Users{}.NameOf(ctx, uint32(uid)) //nolint:gosec // a uid
	}
	if name == "" || name == identity.RootAccount {
		return
	}
	remote.Accounts = []string{name}
	if remote.MinUserID == 0 {
		remote.MinUserID = 1
	}
	if remote.DeniedGroups == nil { // users of a laptop are in groups such as sudo
		remote.DeniedGroups = []string{}
	}
}

// devDecides refuses settings of a file that dev cannot follow.
func devDecides(c agent.Config, loaded *configuration) error {
	const ownCoordinator = "dev runs its own coordinator: want the file without it"
	for _, setting := range []struct {
		field string
		set   bool
		why   string
	}{
		{"coordinators", len(c.Coordinators) > 0, ownCoordinator},
		{"discovery", c.Discovery != "", ownCoordinator},
		{"consul", c.Consul != (agent.Config{}).Consul, ownCoordinator},
		{"cluster", c.Cluster != "", ownCoordinator},
		{"tls", c.TLS != (agent.Config{}).TLS, ownCoordinator},
		{"tokenFile", c.TokenFile != "", ownCoordinator},
		{"socket", c.Socket != "", "want --agent-socket in place of it"},
		{"stateDir", c.StateDir != "", "want --data-dir in place of it"},
		{"logLevel", c.LogLevel != "", "want --log-level in place of it"},
	} {
		if setting.set {
			delete(loaded.set, setting.field)
			return failure.Config(loaded.doc.At(setting.field, setting.why))
		}
	}
	return nil
}
