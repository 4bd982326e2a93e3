package serve

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery/consul"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/internal/yamlfile"
	"github.com/bursar/bursar/label"
)

// The files that are read if none is named.
const (
	coordinatorFile = "/etc/bursar/coordinator.yaml"
	agentFile       = "/etc/bursar/agent.yaml"
)

func coordinatorCommand(c *cmdline.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "coordinator",
		Short: "Keep the ledger: serve agents, gateways and operators",
		Long: `Coordinator keeps the ledger and decides. It serves Connect, gRPC and JSON over
HTTP on one port, with /metrics, /healthz and /readyz, until it gets SIGTERM or
SIGINT. With SIGHUP it reads its files again; some settings need a restart.
Without --config it reads ` + coordinatorFile + ` if there is one; every field has a
default.`,
		Example: `  bursar coordinator
  bursar coordinator --config /etc/bursar/coordinator.yaml
  bursar coordinator --data-dir /srv/bursar \
    --quotas /etc/bursar/quotas.yaml --providers /etc/bursar/providers.yaml
  BURSAR_COORDINATOR_LISTEN=127.0.0.1:7080 bursar coordinator`,
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	file := addConfigFlag(cmd, coordinatorFile)
	logs := addLogFlags(cmd, "info")
	listen := cmd.Flags().String("listen", "", "address to serve on (default 127.0.0.1:7070)")
	dataDir := cmd.Flags().String("data-dir", "", "directory for the file of the store (default /var/lib/bursar/coordinator)")
	insecure := cmd.Flags().Bool("insecure", false, "serve a network without TLS; without identities, serve everybody who can connect, as any user")
	quotas := cmd.Flags().StringArray("quotas", nil, "file of quota rules to keep in force; repeatable")
	clusters := cmd.Flags().String("providers", "", "file of the clusters whose queues limit requests")
	check := addCheckFlag(cmd)
	read := func() (coordinator.Config, *configuration, error) {
		var config coordinator.Config
		loaded, err := loadConfig(*file, coordinatorFile, "BURSAR_COORDINATOR", &config)
		if err != nil {
			return config, nil, err
		}
		loaded.flag(cmd, "listen", "listen", &config.Listen, *listen)
		loaded.flag(cmd, "data-dir", "dataDir", &config.DataDir, *dataDir)
		loaded.flag(cmd, "providers", "providersFile", &config.ProvidersFile, *clusters)
		if cmd.Flags().Changed("insecure") {
			config.Insecure = *insecure
		}
		if cmd.Flags().Changed("quotas") {
			config.QuotaFiles = *quotas
			loaded.set["quotaFiles"] = "--quotas"
		}
		return config, loaded, nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		config, loaded, err := read()
		if err != nil {
			return err
		}
		if *check {
			return reportCheck(c.Printer, loaded, checkCoordinator(config, loaded))
		}
		if err := warnOf(c.Printer, loaded, logs, config.LogLevel); err != nil {
			return err
		}
		return serveCoordinator(cmd.Context(), c, config, loaded, read, logs)
	}
	cmd.AddCommand(migrateCommand(c.Printer))
	return cmd
}

func agentCommand(c *cmdline.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Make this machine a host: measure it, track its engines",
		Long: `Agent makes this machine a host. It measures what the machine really has, serves
programs that start engines here on a Unix socket, and reports to the
coordinator. It runs until it gets SIGTERM or SIGINT. Engines go on without it,
and it finds them again. With SIGHUP it reads its file again; some settings need
a restart. If systemd has opened a socket for it, it serves that one instead of
its own. Without --config it reads ` + agentFile + ` if there is one;
every field has a default.`,
		Example: `  bursar agent
  bursar agent --config /etc/bursar/agent.yaml
  bursar agent --coordinator http://127.0.0.1:7070 \
    --socket /run/bursar/agent.sock
  bursar agent --coordinator consul --token-file /etc/bursar/token \
    --tls-ca /etc/bursar/ca.pem
  BURSAR_AGENT_HOST_ID=vm-1 bursar agent`,
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	file := addConfigFlag(cmd, agentFile)
	logs := addLogFlags(cmd, "info")
	socket := cmd.Flags().String("socket", "", "path of the socket to serve on (default "+agent.DefaultSocket+")")
	stateDir := cmd.Flags().String("state-dir", "", "directory for what it must know after a restart (default "+agent.DefaultStateDir+")")
	coordinators := cmd.Flags().String("coordinator", "", "the coordinators, as --addr names them; BURSAR_ADDR does not count here (default "+servers.DefaultAddr+")")
	forget := cmd.Flags().Bool("forget-epoch", false, "take the epoch of the coordinator that answers, once: for the case that the epoch seen last belongs to no coordinator")
	forgetCluster := cmd.Flags().Bool("forget-cluster", false, "take the cluster of the coordinator that answers, once, and its epoch: to move this host to another cluster, or to a store that was made anew")
	check := addCheckFlag(cmd)
	read := func() (agent.Config, *configuration, error) {
		var config agent.Config
		loaded, err := loadConfig(*file, agentFile, "BURSAR_AGENT", &config)
		if err != nil {
			return config, nil, err
		}
		loaded.flag(cmd, "socket", "socket", &config.Socket, *socket)
		loaded.flag(cmd, "state-dir", "stateDir", &config.StateDir, *stateDir)
		loaded.flag(cmd, "tls-ca", "tls.ca", &config.TLS.CA, c.Credentials.TLS.CA)
		loaded.flag(cmd, "tls-cert", "tls.cert", &config.TLS.Cert, c.Credentials.TLS.Cert)
		loaded.flag(cmd, "tls-key", "tls.key", &config.TLS.Key, c.Credentials.TLS.Key)
		loaded.flag(cmd, "tls-server-name", "tls.serverName", &config.TLS.ServerName, c.Credentials.TLS.ServerName)
		loaded.flag(cmd, "token-file", "tokenFile", &config.TokenFile, c.Credentials.TokenFile)
		if *coordinators != "" {
			config.Discovery, config.Consul, config.Coordinators = "", consul.Config{}, []string{*coordinators}
			loaded.set["coordinators"] = "--coordinator"
		}
		return config, loaded, nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		config, loaded, err := read()
		if err != nil {
			return err
		}
		if *check {
			err := checkAgent(config, loaded)
			if err == nil {
				sayUnknownUsers(cmd.Context(), c.Printer, config, loaded)
				sayProtectsAll(cmd.Context(), c.Printer, config, loaded)
				for _, note := range config.Notes() {
					c.Sayf("%s", render.Printable(note))
				}
			}
			return reportCheck(c.Printer, loaded, err)
		}
		if err := warnOf(c.Printer, loaded, logs, config.LogLevel); err != nil {
			return err
		}
		return serveAgent(cmd.Context(), c, config, loaded, read, logs, agentStart{forgetEpoch: *forget, forgetCluster: *forgetCluster})
	}
	return cmd
}

// warnOf logs, before a server starts, the variables of its environment that set nothing.
func warnOf(out *render.Printer, loaded *configuration, logs *logFlags, level string) error {
	log, err := logs.logger(out.Err, level)
	if err != nil {
		return err
	}
	loaded.warn(log)
	return nil
}

// sayUnknownUsers logs the trusted users and the denied groups that do not exist, or not yet.
func sayUnknownUsers(ctx context.Context, out *render.Printer, config agent.Config, loaded *configuration) {
	for _, i := range config.UnknownUsers(ctx) {
		out.Sayf("%v", loaded.at(fmt.Sprintf("trustedUsers[%d]", i), strconv.Quote(config.TrustedUsers[i])+": this machine has no such user"))
	}
	for _, i := range config.UnknownGroups(ctx) {
		out.Sayf("%v", loaded.at(fmt.Sprintf("engines.remote.deniedGroups[%d]", i), strconv.Quote(config.Engines.Remote.DeniedGroups[i])+": this machine has no such group: no engine is started from elsewhere"))
	}
}

// sayProtectsAll says which settings keep everything that this machine has from engines.
func sayProtectsAll(ctx context.Context, out *render.Printer, config agent.Config, loaded *configuration) {
	list, err := withDiscovery(config).ProtectsAll(ctx)
	if err != nil {
		out.Sayf("protected: cannot be compared with what this machine has: %v", err)
	}
	for _, wrong := range list {
		out.Sayf("%v", loaded.at(wrong.Field, strconv.Quote(wrong.Value)+": want "+wrong.Want))
	}
}

// flag sets a field from a flag, which wins over the file and the environment.
func (c *configuration) flag(cmd *cobra.Command, flag, field string, into *string, value string) {
	if cmd.Flags().Changed(flag) {
		*into = value
		c.set[field] = "--" + flag
	}
}

// explain adds the place where a setting was made to an error of the configuration.
func (c *configuration) explain(err error) error {
	var ofCoordinator *coordinator.ConfigError
	var later *coordinator.TransientConfigError
	var ofConsul *consul.ConfigError
	var ofAgent *agent.ConfigError
	var ofLabels *label.FieldError
	var ofFile *credential.FileError
	var toRead *coordinator.FileError
	var toMake *statefile.FolderError
	var located *yamlfile.Error
	switch {
	case errors.As(err, &located): // in a file that the configuration names
		return failure.Config(err)
	case errors.As(err, &ofFile) && ofFile.Transient():
		return &transientError{c.wrong(ofFile.Field, fmt.Sprintf("%q: %s: want %s", ofFile.File, ofFile.Wrong, ofFile.Want)), ofFile}
	case errors.As(err, &later):
		return &transientError{c.wrong(later.Field, yamlfile.Want(later.Value, later.Want)), later}
	case errors.As(err, &ofFile):
		return c.wrong(ofFile.Field, fmt.Sprintf("%q: %s: want %s", ofFile.File, ofFile.Wrong, ofFile.Want))
	case errors.As(err, &toRead) && regularfile.Transient(toRead.Err):
		return &transientError{&failure.ExitError{Code: failure.ExitCode(toRead.Err), Err: c.at(toRead.Field, toRead.Err.Error())}, toRead}
	case errors.As(err, &toRead):
		return &failure.ExitError{Code: failure.ExitCode(toRead.Err), Err: c.at(toRead.Field, toRead.Err.Error())}
	case errors.As(err, &toMake) && regularfile.Transient(toMake.Err):
		return &transientError{c.wrong("stateDir", yamlfile.Want(toMake.Path, toMake.Want+" ("+toMake.Err.Error()+")")), toMake}
	case errors.As(err, &toMake):
		return c.wrong("stateDir", yamlfile.Want(toMake.Path, toMake.Want+" ("+toMake.Err.Error()+")"))
	case errors.As(err, &ofCoordinator):
		return c.wrong(ofCoordinator.Field, yamlfile.Want(ofCoordinator.Value, ofCoordinator.Want))
	case errors.As(err, &ofConsul):
		return c.wrong("consul."+ofConsul.Field, yamlfile.Want(ofConsul.Value, ofConsul.Want))
	case errors.As(err, &ofAgent):
		return c.wrong(ofAgent.Field, yamlfile.Want(ofAgent.Value, ofAgent.Want))
	case errors.As(err, &ofLabels):
		return c.wrong("labels."+ofLabels.Field, yamlfile.Want(ofLabels.Value, ofLabels.Want))
	}
	return err
}

// serverError separates errors that only a person can fix from errors that may be gone at the next
// start. A service that fails with the code for a bad configuration is not started again and
// again.
func serverError(err error) error {
	var refused *store.RefusedError
	var file *yamlfile.Error
	var newer *statefile.VersionError
	var ofAgent *agent.ConfigError
	var ofCoordinator *coordinator.ConfigError
	var otherStore *election.StoreError
	var garbled *election.IDError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &otherStore), errors.As(err, &garbled), consul.Refused(err):
		return failure.Config(err)
	case errors.As(err, &refused) && refused.Reason != store.InUse,
		errors.As(err, &file), errors.As(err, &newer), errors.As(err, &ofAgent), errors.As(err, &ofCoordinator):
		return failure.Config(err)
	}
	return err
}

func addConfigFlag(cmd *cobra.Command, standard string) *string {
	file := cmd.Flags().String("config", "", "configuration in YAML (default "+standard+" if there is one)")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return file
}
