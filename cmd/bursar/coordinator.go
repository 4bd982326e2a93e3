package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store/opener"
	"github.com/bursar/bursar/discovery/consul"
)

// openCoordinator makes a coordinator with the store and the election that its configuration names.
func openCoordinator(
	ctx context.Context, config coordinator.Config, loaded *configuration, log *slog.Logger,
) (*coordinator.Server, error) {
	if err := config.Validate(); err != nil {
		return nil, loaded.explain(err)
	}
	config = config.WithDefaults()
	where, err := storeOf(config, loaded)
	if err != nil {
		return nil, err
	}
	deps := coordinator.Dependencies{Logger: log, Version: version}
	options := opener.Options{Migrate: true, Log: log}
	if config.Election == coordinator.ElectionConsul || (config.Election == "" && opener.IsDatabase(where)) {
		client, err := consul.New(config.Consul, log)
		if err != nil {
			return nil, loaded.explain(err)
		}
		options.Cluster = config.Cluster
		deps.Elect = elect(client, config, log)
	}
	if deps.Store, err = opener.Open(ctx, where, options); err != nil {
		return nil, serverError(err)
	}
	server, err := coordinator.New(config, deps)
	if err != nil {
		return nil, errors.Join(loaded.explain(err), deps.Store.Close())
	}
	return server, nil
}

// storeOf is where the rows of a coordinator are.
func storeOf(config coordinator.Config, loaded *configuration) (string, error) {
	switch {
	case config.StoreFile != "":
		where, err := secretFile(config.StoreFile)
		if err != nil {
			return "", loaded.wrong("storeFile", err.Error())
		}
		return where, nil
	case config.Store != "":
		return config.Store, nil
	}
	return filepath.Join(config.DataDir, "bursar.db"), nil
}

// maxSecret is more than any address or password of a database.
const maxSecret = 16 << 10

// secretFile reads a file that only its owner and group may read.
func secretFile(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() || info.Size() > maxSecret:
		return "", fmt.Errorf("%s: want a regular file of at most %d bytes", path, maxSecret)
	case info.Mode().Perm()&0o007 != 0:
		return "", fmt.Errorf("%s: mode %04o lets everybody at it: want 0600", path, info.Mode().Perm())
	}
	content, err := os.ReadFile(path) //nolint:gosec // the operator says which
	if err != nil {
		return "", err
	}
	if text := strings.TrimSpace(string(content)); text != "" {
		return text, nil
	}
	return "", fmt.Errorf("%s: is empty", path)
}

// elect makes a coordinator's part in the election that Consul holds.
func elect(client *consul.Client, config coordinator.Config, log *slog.Logger) func(coordinator.Self) (election.Election, error) {
	return func(self coordinator.Self) (election.Election, error) {
		made, err := election.Consul(client, election.Options{
			ID: instanceOf(self.URL), URL: self.URL, Cluster: config.Cluster, TTL: config.ElectionTTL, Alive: self.Alive,
			Meta: map[string]string{"version": version}, Log: log,
		})
		if err != nil {
			return nil, fmt.Errorf("election: %w", err)
		}
		return made, nil
	}
}

// instanceOf is what tells a coordinator from the others: where it is.
func instanceOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return "coordinator"
	}
	return strings.Map(func(r rune) rune {
		if r == ':' || r == '[' || r == ']' || r == '%' {
			return '-'
		}
		return r
	}, u.Host)
}
