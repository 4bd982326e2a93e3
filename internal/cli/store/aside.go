package store

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/opener"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/storefacts"
	"github.com/bursar/bursar/internal/regularfile"
)

// asideLine is a row that was set aside, as a line of the file.
type asideLine struct {
	Time    time.Time `json:"time"`
	StoreID string    `json:"storeId"`
	Because string    `json:"because"` // the row that was named: table and key

	store.AsideRow
}

// key is the key of the row in its table: its first column. For an allocation that is the id as a
// number.
func (l *asideLine) key() string {
	if len(l.Columns) == 0 {
		return ""
	}
	if number, ok := l.Columns[0].Value.(json.Number); ok && l.Table == store.AllocationTable {
		if id, err := number.Int64(); err == nil {
			return ledger.ID(store.Unsigned(id)).String()
		}
	}
	return fmt.Sprint(l.Columns[0].Value)
}

// gives says which things are lost together with a row of a table.
var gives = map[string]string{
	store.AllocationTable: "what it holds counts as free at once, though its engine may run: an agent that knows the engine reports it, and it is taken in again; " +
		"a waiting request is lost, and its request id may be granted again",
	store.HostTable: "the host's live allocations go with it, as do those of hosts that have no row, and whether it was cordoned or drained; its agent registers it again and reports the engines " +
		"that run, which are taken in again; reservations and requests that wait for it are lost",
	store.QuotaTable:    "the limit holds no more, until it is set again: bursar quota set",
	store.ProviderTable: "the cluster is not read any more, until it is set again: bursar provider set",
	store.RefusalTable:  "the command that made the ledger panic is let through again, and may end another leadership",
}

func storeSetAsideCommand(out *render.Printer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set-aside {TABLE KEY | --list} --into FILE",
		Short: "Take a row out of a store that keeps coordinators from leading",
		Long: `Set-aside takes one row out of a store and appends it to a file, with all of its
bytes. Use it for a row that nobody can read. Such a row keeps every coordinator
from leading; the log names its table (allocation, host, quota or provider) and
its key. If there is a recent backup, restore that instead.

A row of the table refusal keeps nobody from leading. It is a command that made
the ledger panic and is refused since, as bursar status warns. Without the row
the command is let through again.

Without --force it says what would be given up, and changes nothing. End the
coordinators first. If one leads all the same, it is deposed and loads the rows
again.`,
		Example: `  bursar store set-aside host vm-17 --into aside.json \
    --store /var/lib/bursar/coordinator/bursar.db
  bursar store set-aside host vm-17 --into aside.json \
    --store-file /etc/bursar/store --force
  bursar store set-aside --list --into aside.json`,
		Args:              cmdline.AtMost(2),
		ValidArgsFunction: cobra.FixedCompletions(store.Tables(), cobra.ShellCompDirectiveNoFileComp),
	}
	where := addStoreFlags(cmd, "store", "path of a file or postgres://… (env "+storefacts.Variable+")")
	into := cmd.Flags().String("into", "", "the file that keeps the rows, a line of JSON for each; it is made with mode 0600")
	force := cmd.Flags().Bool("force", false, "do it")
	list := cmd.Flags().Bool("list", false, "show the rows in the file")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *into == "":
			return failure.Usagef("want --into, the file that keeps the rows")
		case *list && len(args) == 0:
			return listAside(out, *into)
		case *list || len(args) != 2:
			return failure.Usagef("want TABLE and KEY, as the coordinator's log names them, or --list")
		}
		table, key := args[0], args[1]
		given, known := gives[table]
		if !known {
			return failure.Usagef("table %q: want one of %q", table, store.Tables())
		}
		place, err := where.orEnvironment()
		if err != nil {
			return err
		}
		keep := func(rows []store.AsideRow, storeID string) error {
			return appendAside(*into, storeID, table+" "+key, rows)
		}
		if !*force {
			keep = func([]store.AsideRow, string) error { return errUnforced }
		}
		meta, err := setAside(cmd.Context(), place, table, key, keep)
		if errors.Is(err, errUnforced) {
			return failure.Usagef("nothing was changed: %s %q would be set aside, and %s; restore a backup instead if there is one, or repeat with --force", table, key, given)
		}
		if errors.Is(err, store.ErrNotFound) {
			return &failure.ExitError{Code: failure.ExitNoSuchThing, Err: fmt.Errorf("%s %q: no such row in %s", table, key, opener.Name(place))}
		}
		if err != nil {
			return storeRefused(err)
		}
		out.Sayf("%s %q was set aside into %s; %s", table, key, *into, given)
		return storefacts.Print(out, place, meta)
	}
	return cmd
}

// errUnforced says that the row stays in its place because --force is missing.
var errUnforced = errors.New("--force was not said")

func setAside(ctx context.Context, place, table, key string, keep func(rows []store.AsideRow, storeID string) error) (meta store.Meta, err error) {
	opened, err := openExisting(ctx, place)
	if err != nil {
		return meta, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	from, can := opened.(store.Aside)
	if !can {
		return meta, fmt.Errorf("store %s: no rows can be set aside", opener.Name(place))
	}
	of, err := opened.Meta(ctx)
	if err != nil {
		return meta, err //nolint:wrapcheck // says where and why
	}
	keepAll := func(rows []store.AsideRow) error { return keep(rows, of.StoreID) }
	meta, err = from.SetAside(ctx, table, key, keepAll)
	if shown, quoted := unquoted(key); quoted && errors.Is(err, store.ErrNotFound) {
		meta, err = from.SetAside(ctx, table, shown, keepAll)
	}
	return meta, err //nolint:wrapcheck // says which row, and why
}

// unquoted is a key that was copied from a log, which writes characters that no terminal shows as
// "\x00" and the like.
func unquoted(key string) (text string, quoted bool) {
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(key, `"`, `\"`) + `"`)
	return text, err == nil && text != key
}

// appendAside writes rows to the end of the file, and to the disk.
func appendAside(path, storeID, because string, rows []store.AsideRow) (err error) {
	// Root may have named a file in a folder where others can make links.
	const flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	file, err := os.OpenFile(path, flags, 0o600) //nolint:gosec // the operator says which
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("--into: %s: %w, which is no symbolic link", path, regularfile.ErrNotRegular)
	}
	if err != nil {
		return fmt.Errorf("--into: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("--into: %s: %w", path, regularfile.ErrNotRegular))
	}
	lines := json.NewEncoder(file)
	for _, row := range rows {
		if err := lines.Encode(asideLine{Time: time.Now().UTC(), StoreID: storeID, Because: because, AsideRow: row}); err != nil {
			return fmt.Errorf("--into: %w", err)
		}
	}
	return file.Sync() //nolint:wrapcheck // says which file
}

// listAside prints the rows that were set aside.
func listAside(out *render.Printer, path string) (err error) {
	file, err := os.Open(path) //nolint:gosec // as above
	if err != nil {
		return fmt.Errorf("--into: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if out.IsJSON() {
		lines := bufio.NewReader(file)
		for {
			line, err := lines.ReadBytes('\n')
			if _, writeErr := out.Write(line); writeErr != nil || errors.Is(err, io.EOF) {
				return writeErr
			}
			if err != nil {
				return err //nolint:wrapcheck // as it is
			}
		}
	}
	var rows [][]string
	lines := json.NewDecoder(file)
	lines.UseNumber() // an id does not fit into a float64
	for {
		var line asideLine
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("--into: %s: %w", path, err)
		}
		rows = append(rows, []string{render.Local(line.Time).Format(time.DateTime), line.StoreID, line.Table, line.key(), line.Because})
	}
	out.Table([]string{"TIME", "STORE", "TABLE", "ROW", "BECAUSE OF"}, rows)
	return nil
}

func storeEpochCommand(out *render.Printer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "epoch --at-least N",
		Short: "Raise the epoch of a store",
		Long: `Epoch begins a leadership of a store in an epoch that is not below N, and ends
it at once. Use it if an old backup was restored, and the agents have seen
epochs more than 2^20 above the store's own. Coordinators refuse the agents'
reports then, and name N. A coordinator that leads is deposed, and leads again
above N.`,
		Example:           `  bursar store epoch --at-least 1048999 --store-file /etc/bursar/store`,
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	where := addStoreFlags(cmd, "store", "path of a file or postgres://… (env "+storefacts.Variable+")")
	atLeast := cmd.Flags().Uint64("at-least", 0, "the epoch")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if *atLeast == 0 {
			return failure.Usagef("want --at-least, the epoch that the coordinators' log names")
		}
		place, err := where.orEnvironment()
		if err != nil {
			return err
		}
		opened, err := openExisting(cmd.Context(), place)
		if err != nil {
			return storeRefused(err)
		}
		meta, err := opened.Lead(cmd.Context(), *atLeast)
		if err = errors.Join(err, opened.Close()); err != nil {
			return storeRefused(err)
		}
		return storefacts.Print(out, place, meta)
	}
	return cmd
}
