package serve

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/store/opener"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/storefacts"
	"github.com/bursar/bursar/internal/discovery/consul"
)

// migrateCommand is `bursar coordinator migrate`.
func migrateCommand(out *render.Printer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make or update the tables of a store",
		Long: `Migrate makes the tables of the store that the configuration names, or brings
them up to date. Then it shows what the store is. Coordinators of the version
before can go on meanwhile; several migrations may run at once.

A store that belongs to another cluster is refused. With --adopt it becomes this
cluster's store, and a coordinator that leads with it is deposed. If this
cluster's coordinators have used another store until now, they use this one from
then on: end them first.`,
		Example: `  bursar coordinator migrate --config /etc/bursar/coordinator.yaml
  bursar coordinator migrate --store postgres://owner@db1/bursar
  bursar coordinator migrate --adopt`,
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	file := addConfigFlag(cmd, coordinatorFile)
	logs := addLogFlags(cmd, "info")
	where := cmd.Flags().String("store", "", "path of a file or postgres://… (env "+storefacts.Variable+")")
	adopt := cmd.Flags().Bool("adopt", false, "make this the store of this cluster, even if another has used it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := logs.logger(out.Err, "")
		if err != nil {
			return err
		}
		var config coordinator.Config
		loaded, err := loadConfig(*file, coordinatorFile, "BURSAR_COORDINATOR", &config)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("store") {
			config.StoreFile = ""
		}
		loaded.flag(cmd, "store", "store", &config.Store, *where)
		config = config.WithDefaults()
		place, err := storeOf(config, loaded)
		if err != nil {
			return err
		}
		options := opener.Options{Adopt: *adopt, Migrate: true, OthersFolder: true, Log: log}
		var client *consul.Client
		if elected(config, place) {
			if client, err = consul.New(config.Consul, log); err != nil {
				return loaded.explain(err)
			}
			defer client.Close()
		}
		if options.Cluster, err = ownerOf(cmd.Context(), client, config); err != nil {
			if *adopt {
				return serverError(err)
			}
			log.Warn("whether the store is this cluster's is not asked: Consul does not say", "error", err)
		}
		opened, err := opener.Open(cmd.Context(), place, options)
		if err != nil {
			return serverError(err)
		}
		meta, err := opened.Meta(cmd.Context())
		if err = errors.Join(err, opened.Close()); err != nil {
			return err
		}
		if *adopt && client != nil {
			if err := claimStore(cmd.Context(), client, config, meta.StoreID, log); err != nil {
				return err
			}
		}
		return storefacts.Print(out, place, meta)
	}
	return cmd
}
