package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/opener"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/kinds"
	"github.com/bursar/bursar/internal/cli/storefacts"
	"github.com/bursar/bursar/internal/discovery/consul"
	"github.com/bursar/bursar/internal/reload"
	"github.com/bursar/bursar/internal/yamlfile"
)

// openCoordinator makes a coordinator with the store and the election that its configuration
// names. It calls checked once the configuration and its files are found good, before it calls
// anybody. localMayLaunch is that of coordinator.Dependencies.
func openCoordinator(
	ctx context.Context, config coordinator.Config, loaded *configuration, by program, log *slog.Logger, checked func(), localMayLaunch ...string,
) (*coordinator.Server, error) {
	// Before anything is opened: once its tables are brought up to date, the version before cannot
	// use a store.
	if err := checkCoordinator(config, loaded); err != nil {
		return nil, err
	}
	checked()
	config = config.WithDefaults()
	where, err := storeOf(config, loaded)
	if err != nil {
		return nil, err
	}
	deps := coordinator.Dependencies{Logger: log, Version: by.version, Tracing: by.traces, Kinds: kinds.Known(), LocalMayLaunch: localMayLaunch}
	options := opener.Options{Migrate: true, Log: log}
	if config.StoreFile != "" {
		options.Read = func() (string, error) { return storeOf(config, loaded) }
	}
	var client *consul.Client
	if elected(config, where) {
		if client, err = consul.New(config.Consul, log); err != nil {
			return nil, loaded.explain(err)
		}
		deps.Elect = func(self coordinator.Self) (election.Election, error) {
			return elect(ctx, client, config, deps.Store, self, by.version, log)
		}
	}
	var owning error // why the cluster's id is not known; nil: it is
	if options.Cluster, owning = ownerOf(ctx, client, config); owning != nil {
		if consul.Refused(owning) {
			return nil, serverError(owning)
		}
		log.Warn("Consul does not say whose the store is: its own word counts", "error", owning)
	}
	if deps.Store, err = opener.Open(ctx, where, options); err != nil {
		return nil, storeError(config, loaded, err)
	}
	if err := checkOwner(ctx, deps.Store, config.Cluster, owning); err != nil {
		return nil, errors.Join(serverError(err), deps.Store.Close())
	}
	server, err := coordinator.New(config, deps)
	if err != nil {
		return nil, errors.Join(loaded.explain(err), deps.Store.Close())
	}
	keepProcessorFree()
	return server, nil
}

// keepProcessorFree lets Go run at least four threads at a time. It looks at the network when one
// of them has nothing to do, and otherwise every 10 ms. With two of them, one caller with all its
// might keeps one busy, and the ledger and the collector of garbage the other: others waited for
// 10 ms several times a call. Bounds that go by the number of processors have been set before.
func keepProcessorFree() {
	const fewest = 4
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < fewest {
		runtime.GOMAXPROCS(fewest)
	}
}

// serveCoordinator runs a coordinator until it is told to stop.
func serveCoordinator(
	ctx context.Context, c *cmdline.Invocation, config coordinator.Config, loaded *configuration, read func() (coordinator.Config, *configuration, error), logs *logFlags,
) error {
	log, err := logs.logger(c.Err, config.LogLevel)
	if err != nil {
		return err
	}
	ctx, interrupts, hangups := cmdline.CatchStops(ctx)
	defer interrupts.Stop()
	start := newCoordinatorStart(config, loaded, newProgram(ctx, c, "bursar-coordinator", log), log)
	err = newNotifier(log).supervise(ctx, served{
		run: start.run, ready: start.ready, waits: start.waits, hangups: hangups, stopping: config.WithDefaults().Limits.Shutdown,
		status: func() string { return start.server.Load().Status() },
		live:   func(ctx context.Context) error { return start.server.Load().Live(ctx) },
		reload: func(ctx context.Context) (reload.Changes, error) {
			config, loaded, err := read()
			if err != nil {
				return reload.Changes{}, err
			}
			if err := checkCoordinator(config, loaded); err != nil {
				return reload.Changes{}, err
			}
			changes, err := start.server.Load().Reload(ctx, config)
			if err != nil {
				return changes, loaded.explain(err)
			}
			return changes, logs.set(config.LogLevel)
		},
	})
	if isTransient(err) { // while it served: the service manager starts it again
		return &failure.ExitError{Code: failure.ExitFailed, Err: err}
	}
	return serverError(err)
}

// checkCoordinator checks whether a coordinator would start with a configuration, as far as files
// can tell. It changes nothing.
func checkCoordinator(config coordinator.Config, loaded *configuration) error {
	if err := config.Validate(); err != nil {
		return loaded.explain(err)
	}
	config = config.WithDefaults()
	where, err := storeOf(config, loaded)
	if err != nil {
		return err
	}
	if err := checkStore(config, where, loaded); err != nil {
		return err
	}
	if err := checkConsul(config, where); err != nil {
		return loaded.explain(err)
	}
	if elected(config, where) {
		if err := reachable(config); err != nil {
			return loaded.explain(err)
		}
	}
	return loaded.explain(coordinator.Check(config, kinds.Known(), elected(config, where)))
}

// checkStore checks the place of the rows, and names the field if it is wrong. It connects to
// nothing.
func checkStore(config coordinator.Config, where string, loaded *configuration) error {
	err := opener.Check(where)
	if err == nil {
		err = opener.Guard(where)
	}
	refused, ok := errors.AsType[*store.RefusedError](err)
	if !ok {
		return err
	}
	err = wrongStore(config, loaded, refused.Found+": want "+refused.Want)
	if refusalIsTransient(refused) {
		return &transientError{err, refused}
	}
	return err
}

// storeError adds the field that names the store to an error of opening it, if the store cannot be
// read and written.
func storeError(config coordinator.Config, loaded *configuration, err error) error {
	if refused, ok := errors.AsType[*store.RefusedError](err); ok && (refused.Reason == store.Denied || refused.Reason == store.Malformed) {
		explained := wrongStore(config, loaded, err.Error())
		if refusalIsTransient(refused) {
			return &transientError{explained, refused}
		}
		return explained
	}
	return serverError(err)
}

// wrongStore is the error for the place of the rows, with the field that names it.
func wrongStore(config coordinator.Config, loaded *configuration, reason string) error {
	field := "dataDir"
	switch {
	case config.StoreFile != "":
		field = "storeFile"
	case config.Store != "":
		field = "store"
	}
	err := loaded.wrong(field, reason)
	if located, ok := errors.AsType[*yamlfile.Error](err); ok {
		located.HideExcerpt() // it may have a password
	}
	return err
}

// checkConsul checks a section consul whether it is used or not. An operator who has written one
// wants several coordinators, and three coordinators without an election would each give out every
// host.
func checkConsul(config coordinator.Config, where string) error {
	if config.Consul == (consul.Config{}) {
		return nil
	}
	if config.Election == "" && !opener.IsDatabase(where) {
		return &coordinator.ConfigError{
			Field: "consul", Value: "…",
			Want: "a store that several coordinators share next to it (store or storeFile with postgres://…), or election: consul or alone to say what is meant with the store " + where,
		}
	}
	return config.Consul.Validate()
}

// elected reports whether a coordinator stands for election.
func elected(config coordinator.Config, where string) bool {
	return config.Election == coordinator.ElectionConsul || (config.Election == "" && opener.IsDatabase(where))
}

// ownerOf names the cluster that a coordinator belongs to, as a store remembers it. client is nil
// if there is no Consul.
func ownerOf(ctx context.Context, client *consul.Client, config coordinator.Config) (string, error) {
	if client == nil {
		return config.Cluster + "/alone", nil
	}
	return election.ClusterID(ctx, client, config.Cluster)
}

// checkOwner refuses a store that does not belong to the cluster, if Consul has no valid id of the
// cluster. If the store belongs to it, the coordinator writes the id back to Consul when it
// campaigns.
func checkOwner(ctx context.Context, opened store.Store, cluster string, owning error) error {
	garbled, ok := errors.AsType[*election.IDError](owning)
	if !ok {
		return nil
	}
	meta, err := opened.Meta(ctx)
	if err != nil {
		return err
	}
	if !election.IsClusterID(meta.Cluster, cluster) {
		return garbled
	}
	return nil
}

// claimStore makes a store the one that the cluster's coordinators use.
func claimStore(ctx context.Context, client *consul.Client, config coordinator.Config, storeID string, log *slog.Logger) error {
	// Nobody is elected here: the address is never announced.
	made, err := election.Consul(client, election.Options{ID: "migrate", URL: "http://127.0.0.1:1", Cluster: config.Cluster, Log: log})
	if err != nil {
		return err
	}
	return made.ClaimStore(ctx, storeID, true)
}

// storeOf is where the rows of a coordinator are.
func storeOf(config coordinator.Config, loaded *configuration) (string, error) {
	switch {
	case config.StoreFile != "":
		where, err := storefacts.ReadSecret(config.StoreFile)
		if err != nil {
			return "", transient(loaded.wrong("storeFile", err.Error()), err)
		}
		return where, nil
	case config.Store != "":
		return config.Store, nil
	}
	return filepath.Join(config.DataDir, "bursar.db"), nil
}

// elect makes the election in Consul that a coordinator takes part in. A coordinator with another
// store than the others is refused. If Consul does not answer now, the coordinator finds that out
// before it campaigns.
func elect(
	ctx context.Context, client *consul.Client, config coordinator.Config, opened store.Store, self coordinator.Self, version string, log *slog.Logger,
) (election.Election, error) {
	meta, err := opened.Meta(ctx)
	if err != nil {
		return nil, err
	}
	machine, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("election: the name of this machine: %w", err)
	}
	made, err := election.Consul(client, election.Options{
		ID: instanceOf(machine, config.Listen, self.URL), URL: self.URL, Cluster: config.Cluster, TTL: config.ElectionTTL, Alive: self.Alive,
		StoreID: meta.StoreID, ClusterID: meta.Cluster, Replaces: config.ReplacesStores, Mismatch: self.Mismatch, Shared: self.Shared, Prepared: self.Prepared, Meta: map[string]string{"version": version}, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	err = made.ClaimStore(ctx, meta.StoreID, false)
	if _, other := errors.AsType[*election.StoreError](err); other || consul.Refused(err) {
		return nil, err
	}
	if err != nil {
		log.Warn("Consul does not answer: this coordinator serves, and leads when it does", "error", err)
	}
	return made, nil
}
