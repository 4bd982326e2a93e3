package access

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/internal/yamlfile"
)

func tokenCommand(out *render.Printer) *cobra.Command {
	token := cmdline.Family("token", "Make, list and revoke the tokens of callers",
		`A coordinator knows its callers by their tokens. Its file of identities (the
setting identities) has their hashes, names and roles. When the file changes,
the change is in force within 2 s, without a restart. These commands work on the
file and call nobody.`,
		tokenCreateCommand(out), tokenListCommand(out), tokenRevokeCommand(out))
	for _, cmd := range token.Commands() {
		cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
			return servers.Needless(cmd, cmd.CommandPath()+" calls no server")
		}
	}
	return token
}

func tokenCreateCommand(c *render.Printer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make an identity with a token, and print the token once",
		Long: `Create makes an identity with a token. The token is written to the new file
--out, which only its owner can read (mode 0600). Without --out it is printed on
standard output. It is kept nowhere else. Its hash is added to the file of
identities. Without --identities the hash is printed on standard error, and you
add it by hand.

  reader       sees everything except what engines wrote, and changes nothing
  submitter    allocates for the users it may act as (--user)
  agent        speaks for one host (--host)
  operator     looks after hosts, and can end the engines of everybody
  admin        does everything
  coordinator  is another coordinator`,
		Example: `  bursar token create --name gateway --role submitter --user '*' \
    --identities /etc/bursar/identities.yaml --out gateway.token
  bursar token create --name vm-1 --role agent --host vm-1 \
    --identities /etc/bursar/identities.yaml --out vm-1.token
  bursar token create --name nightly --role submitter --user etl \
    --may-launch etl --not-after 2027-01-31`,
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	name := flags.String("name", "", "the identity's name, by which logs and allocations know it")
	role := flags.String("role", "", "reader, submitter, agent, operator, admin or coordinator")
	users := flags.StringArrayP("user", "u", nil, "user that it may act as, or * for all; repeatable (submitter, operator)")
	mayLaunch := flags.StringArray("may-launch", nil, "account on the hosts as which it may have commands started there; repeatable (submitter, operator, admin)")
	host := flags.String("host", "", "id of the host that it speaks for (agent)")
	priority := flags.Bool("priority", false, "lets it set priorities (submitter)")
	notAfter := flags.String("not-after", "", "the last day it may be used on, 2027-01-31, or a time, 2027-01-31T12:00:00Z (default never)")
	file := addIdentitiesFlag(cmd, "file of identities to add it to; made if it is missing")
	out := flags.String("out", "", "new file to put the token into, mode 0600 (default: print it)")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(roleNames(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(*cobra.Command, []string) error {
		known, err := identity.ParseRole(*role)
		if err != nil {
			return failure.Usagef("--%w", err)
		}
		end, err := endOf(*notAfter)
		if err != nil {
			return err
		}
		token := access.NewToken()
		entry, err := access.NewEntry(known, *name, *host, *users, *mayLaunch, *priority, end, token)
		if err != nil {
			return flagError(err)
		}
		undo, err := writeToken(*out, token)
		if err != nil {
			return err
		}
		if *file == "" {
			fmt.Fprintf(render.Harmless{To: c.Err}, "# This belongs into the coordinator's file of identities, below \"identities:\".\n%s", access.Format(entry, "  "))
		} else if err := changeFile(*file, func(content []byte) ([]byte, error) { return access.Append(*file, content, entry) }); err != nil {
			undo()
			return err
		}
		err = printToken(c, entry, token, *out)
		if err != nil && *out == "" && *file != "" {
			return fmt.Errorf("%w, and the token with it: remove the identity with bursar token revoke %s, and create it again", err, spelling.Shell(*name))
		}
		return err
	}
	return cmd
}

// writeToken puts a token into a new file that only its owner can read, if one is named. undo
// removes the file again.
func writeToken(name, token string) (undo func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	undo = func() { _ = os.Remove(name) }
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // named on the command line
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, failure.Usagef("--out: %q: exists already: want a new file", name)
	case err != nil:
		return nil, fmt.Errorf("--out: %w", err)
	}
	_, err = file.WriteString(token + "\n")
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		undo()
		return nil, fmt.Errorf("--out: %w", err)
	}
	return undo, nil
}

// printToken prints a token, for the only time, or the file that it is in.
func printToken(out *render.Printer, e access.Entry, token, file string) error {
	if out.IsJSON() {
		text := map[string]string{"name": e.Actor.Name, "role": string(e.Actor.Role), "tokenHash": e.Hashes[0]}
		if file != "" {
			text["tokenFile"] = file
		} else {
			text["token"] = token
		}
		return json.NewEncoder(out).Encode(text)
	}
	if file == "" {
		out.Printf("%s\n", token)
	}
	return out.Lost()
}

func addIdentitiesFlag(cmd *cobra.Command, usage string) *string {
	file := cmd.Flags().String("identities", "", usage)
	_ = cmd.MarkFlagFilename("identities", "yaml", "yml")
	return file
}

func roleNames() []cobra.Completion {
	var names []cobra.Completion
	for _, role := range identity.Roles() {
		names = append(names, string(role))
	}
	return names
}

func endOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	end, err := access.ParseTime(text)
	if err != nil {
		return end, failure.Usagef("--not-after %q: want a day such as 2027-01-31, or a time such as 2027-01-31T12:00:00Z", text)
	}
	return end, nil
}

// flagError names the flag in an error about a field of an identity.
func flagError(err error) error {
	wrong, ok := errors.AsType[*yamlfile.Error](err)
	if !ok {
		return err
	}
	field := wrong.Field[strings.LastIndex(wrong.Field, ".")+1:]
	flag := map[string]string{"users": "user"}[strings.SplitN(field, "[", 2)[0]]
	return failure.Usagef("--%s: %s", cmp.Or(flag, field), strings.ReplaceAll(wrong.Reason, `["*"]`, "'*'"))
}

func tokenListCommand(out *render.Printer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the identities of a file",
		Long: `List shows the identities of a file, and checks the file: for each mistake it
names the line.`,
		Example:           "  bursar token list --identities /etc/bursar/identities.yaml",
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	file := addIdentitiesFlag(cmd, "file of identities")
	cmd.RunE = func(*cobra.Command, []string) error {
		content, err := readIdentities(*file)
		if err != nil {
			return err
		}
		all, err := access.Parse(*file, content)
		if err != nil {
			return err
		}
		return printIdentities(out, all.Entries())
	}
	return cmd
}

func printIdentities(c *render.Printer, entries []access.Entry) error {
	rows := make([][]string, 0, len(entries))
	for _, e := range entries {
		users := strings.Join(e.Actor.Users, ",")
		if e.Actor.Anyone {
			users = "*"
		}
		end := ""
		if !e.NotAfter.IsZero() {
			end = render.Local(e.NotAfter).Format(time.DateTime)
			if time.Now().After(e.NotAfter) {
				end += " (over)"
			}
		}
		rows = append(rows, []string{e.Actor.Name, string(e.Actor.Role), users, e.Actor.Host, end, fmt.Sprint(len(e.Hashes))})
	}
	if c.IsJSON() {
		list := make([]map[string]any, 0, len(entries))
		for i, e := range entries {
			list = append(list, map[string]any{
				"name": e.Actor.Name, "role": e.Actor.Role, "users": e.Actor.Users, "anyone": e.Actor.Anyone,
				"priority": e.Actor.Priority, "host": e.Actor.Host, "notAfter": rows[i][4], "tokenHash": e.Hashes,
			})
		}
		out := json.NewEncoder(c)
		out.SetIndent("", "  ")
		return out.Encode(map[string]any{"identities": list})
	}
	if len(rows) == 0 {
		c.Sayf("no identities")
		return nil
	}
	c.Table([]string{"NAME", "ROLE", "USERS", "HOST", "ENDS", "TOKENS"}, rows)
	return nil
}

func tokenRevokeCommand(out *render.Printer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Remove an identity, and with it its tokens",
		Long: `Revoke removes an identity from a file. Coordinators that watch the file refuse
its tokens within 2 s, also on connections that are open. To replace a token
without a gap, do not revoke it: put the hash of the new token next to the old
one, tokenHash: ["sha256:…", "sha256:…"].`,
		Example:           "  bursar token revoke nightly --identities /etc/bursar/identities.yaml",
		Args:              cmdline.ExactlyOne(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	file := addIdentitiesFlag(cmd, "file of identities")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if _, err := readIdentities(*file); err != nil {
			return err
		}
		err := changeFile(*file, func(content []byte) ([]byte, error) { return access.Remove(*file, content, args[0]) })
		if missing, ok := errors.AsType[*access.MissingError](err); ok {
			return &failure.ExitError{Code: failure.ExitNoSuchThing, Err: missing}
		}
		if err != nil {
			return err
		}
		if out.IsJSON() {
			return json.NewEncoder(out).Encode(map[string]string{"name": args[0]})
		}
		out.Printf("%s revoked\n", args[0])
		return nil
	}
	return cmd
}

func readIdentities(file string) ([]byte, error) {
	if file == "" {
		return nil, failure.Usagef("no file: want --identities FILE, that of the coordinator's setting identities")
	}
	content, err := access.ReadFile(file)
	return content, asRefused(err)
}

// asRefused gives the error of a file that no coordinator accepts the code for a bad
// configuration. The content of the file is not in force, nor is any change of it.
func asRefused(err error) error {
	if _, refused := errors.AsType[*access.ModeError](err); refused {
		return failure.Config(fmt.Errorf("%w: as it is no coordinator takes it, nor any change of it", err))
	}
	return err
}

// changeFile replaces a file in one step, with the same owner and mode. If no coordinator would
// accept the file, before or after, it stays as it is.
func changeFile(name string, change func([]byte) ([]byte, error)) error {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target // the link stays one
	}
	content, err := access.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return asRefused(err)
	}
	changed, err := change(content)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o640)
	next, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".")
	if err != nil {
		return err //nolint:wrapcheck // it names the file
	}
	defer os.Remove(next.Name())
	if info, err := os.Stat(name); err == nil {
		mode = info.Mode().Perm()
		if owner, ok := info.Sys().(*syscall.Stat_t); ok {
			if err := next.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
				return errors.Join(fmt.Errorf("keep the owner of %s: %w", name, err), next.Close())
			}
		}
	}
	_, err = next.Write(changed)
	if err := errors.Join(err, next.Chmod(mode), next.Sync(), next.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(next.Name(), name) //nolint:wrapcheck // it names the file
}
