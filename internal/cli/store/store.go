package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/copying"
	"github.com/bursar/bursar/coordinator/store/opener"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/storefacts"
)

func storeInfoCommand(out *render.Printer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show what a store is, and how far it has come",
		Long: `Info shows which store it is, whose it is, and how far it has come. It changes
nothing, and refuses a store of an older version. It cannot read the file of a
coordinator that runs: that coordinator has the file for itself.`,
		Example: `  bursar store info --store postgres://bursar@db1,db2/bursar
  bursar store info --store /var/lib/bursar/coordinator/bursar.db -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return errors.New("no such argument: want --store before the path of a file or postgres://…")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	where := addStoreFlags(cmd, "store", "path of a file or postgres://… (env "+storefacts.Variable+")")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		place, err := where.orEnvironment()
		if err != nil {
			return err
		}
		meta, err := readMeta(cmd.Context(), place)
		if err != nil {
			return storeRefused(err)
		}
		return storefacts.Print(out, place, meta)
	}
	return cmd
}

func readMeta(ctx context.Context, where string) (store.Meta, error) {
	opened, err := openExisting(ctx, where)
	if err != nil {
		return store.Meta{}, err
	}
	meta, err := opened.Meta(ctx)
	return meta, errors.Join(err, opened.Close())
}

// storeFlags name a store, or a file that has the name: while a program runs, everybody on the
// machine can read its command line.
type storeFlags struct {
	name        string
	where, file *string
}

func addStoreFlags(cmd *cobra.Command, name, usage string) storeFlags {
	return storeFlags{
		name: name, where: cmd.Flags().String(name, "", usage),
		file: cmd.Flags().String(name+"-file", "", "file with the value of --"+name+", mode 0600: for an address with a password"),
	}
}

// read returns where the store is; empty if neither flag was given.
func (f storeFlags) read() (string, error) {
	switch {
	case *f.file == "":
		return *f.where, nil
	case *f.where != "":
		return "", failure.Usagef("want --%[1]s or --%[1]s-file, not both", f.name)
	}
	where, err := storefacts.ReadSecret(*f.file)
	if err != nil {
		return "", failure.Config(fmt.Errorf("--%s-file: %w", f.name, err))
	}
	return where, nil
}

// storeRefused gives a store that only a person can mend the exit code for a bad configuration.
func storeRefused(err error) error {
	if refused, ok := errors.AsType[*store.RefusedError](err); ok && refused.Reason != store.InUse {
		return failure.Config(err)
	}
	return err
}

// openExisting opens a store. It makes none if there is no file, and migrates none.
func openExisting(ctx context.Context, where string) (store.Store, error) {
	if err := opener.Check(where); err != nil {
		return nil, err //nolint:wrapcheck // says why
	}
	return opener.Open(ctx, where, opener.Options{KeepSchema: true, OthersFolder: true}) //nolint:wrapcheck // says where and why
}

func storeCopyCommand(out *render.Printer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "copy --from STORE --to STORE",
		Short: "Copy a store, from a file to a database or the other way",
		Long: `Copy copies all rows of a store into an empty one, compares both, and checks the
ledger in the copy. First end the coordinators that use either of them. The copy
gets an identity of its own. If copying was interrupted, no coordinator uses the
copy; copy again.`,
		Example: `  bursar store copy --from /var/lib/bursar/coordinator/bursar.db \
    --to-file /etc/bursar/store
  bursar store copy --from postgres://bursar@db1/bursar --to ./bursar.db`,
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	source := addStoreFlags(cmd, "from", "the store to copy: path of a file or postgres://…")
	target := addStoreFlags(cmd, "to", "the empty store: path of a file or postgres://…")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		from, err := source.read()
		if err != nil {
			return err
		}
		to, err := target.read()
		if err != nil {
			return err
		}
		switch {
		case from == "" || to == "":
			return failure.Usagef("want --from and --to, each the path of a file or postgres://…, or --from-file and --to-file")
		case from == to:
			return failure.Usagef("--from and --to are the same store")
		}
		report, err := copyStore(cmd.Context(), from, to)
		if err != nil {
			return storeRefused(err)
		}
		out.Sayf("copied %d live and %s, %s and %s; the copy is the same, and its ledger is right",
			report.Live, render.Counted(report.Ended, "ended allocation", "ended allocations"),
			render.Counted(report.Hosts, "host", "hosts"), render.Counted(report.Quotas, "rule", "rules"))
		if report.Hosts > 0 {
			out.Sayf("agents belong to the original: set replacesStores: [%s] in the configuration of the copy's coordinators, until all hosts have reported once", report.Source.StoreID)
		}
		return storefacts.Print(out, to, report.Copy)
	}
	return cmd
}

func copyStore(ctx context.Context, from, to string) (report copying.Report, err error) {
	source, err := openExisting(ctx, from)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	opened, err := opener.Open(ctx, to, opener.Options{Migrate: true, IntoCopy: true, OthersFolder: true})
	if err != nil {
		return report, err //nolint:wrapcheck // says where and why
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	target, ok := opened.(store.CopyTarget)
	if !ok {
		return report, fmt.Errorf("store %s: cannot be copied into", opener.Name(to))
	}
	return copying.Run(ctx, source, target, copying.Options{Source: opener.Name(from), Now: time.Now()}) //nolint:wrapcheck // says it
}
