// Package command is the command line of bursar-linkis-check: its flags, its output, its exit
// codes. Package check makes the comparison.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bursar/bursar/integrations/linkis/check"
	"github.com/bursar/bursar/internal/regularfile"
)

// Name is the program's.
const Name = "bursar-linkis-check"

// Streams are the program's input and outputs: the report goes to Out, all else to Err.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// invocation is one run of the program.
type invocation struct {
	Streams

	output, database, passwordFile string
	noDatabase                     bool
	coordinator                    coordinatorFlags
	// begun is set when the command line has been understood. An error before that is a mistake of
	// the user.
	begun bool
}

// Execute runs one command line and returns the process's exit code.
func Execute(ctx context.Context, version string, args []string, s Streams) int {
	i := &invocation{Streams: s}
	cmd := i.command(version) //nolint:contextcheck // it runs with the context that it gets below
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err != nil && !i.begun {
		if saysJSON(args) {
			i.output = outputJSON // the flag may be behind the mistake
		}
		err = exit(exitUsage, fmt.Errorf("%w; see: %s --help", err, Name))
	}
	if err != nil {
		i.report(err)
	}
	return exitCode(err)
}

// New is the command, for its manual page and its completions.
func New(version string) *cobra.Command { return (&invocation{}).command(version) }

func (i *invocation) command(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   Name + " FILE...",
		Short: "What would be different if a Linkis ran on Bursar?",
		Long: `Bursar-linkis-check reads Linkis's properties files, a later one over an earlier
one, and the database that they name, and says what would be different on
Bursar: sizes of ECMs, limits that become quota rules, rules for tasks across
clusters, engines that run, queues, and settings that are ignored or replaced.
It changes nothing: it reads the database in one read-only transaction.
Passwords are never printed.

With --addr or BURSAR_ADDR the sizes are compared with what Bursar's hosts have:
the program bursar, which must be next to this one or in PATH, asks for them.
A row with ! needs somebody to do or decide something first: -o json counts them
as attention. The code is 0 if everything could be read, whatever was found; 69
if the database or the coordinator does not answer, 77 if it does not let us in,
78 if a file or the database's address is wrong.`,
		Example: `  bursar-linkis-check /opt/linkis/conf/linkis.properties \
    /opt/linkis/conf/linkis-cg-engineconnmanager.properties
  bursar-linkis-check linkis.properties --no-database
  bursar-linkis-check linkis.properties --addr http://rm-1:7070 -o json |
    jq -r '.findings[] | select(.attention) | .subject + ": " + .bursar'`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("want %s FILE...: there is no FILE", Name)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := i.checkFlags(cmd.Flags()); err != nil {
				return err
			}
			i.begun = true
			report, err := i.compare(cmd.Context(), files)
			if err != nil {
				return err
			}
			return i.print(report)
		},
	}
	cmd.SetOut(i.Out)
	cmd.SetErr(i.Err)
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&i.database, "database", "", "Linkis's database, jdbc:mysql://HOST:PORT/NAME, instead of the one in the files")
	flags.StringVar(&i.passwordFile, "password-file", "", "file with the database's password, instead of the one in the files")
	flags.BoolVar(&i.noDatabase, "no-database", false, "look at the files alone")
	i.coordinator.add(flags)
	flags.StringVarP(&i.output, "output", "o", outputTable, "table, wide or json")
	_ = cmd.MarkFlagFilename("password-file")
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), "Flags.FlagUsages ", "Flags.FlagUsagesWrapped 80 "))
	return cmd
}

// checkFlags refuses flags that would change nothing.
func (i *invocation) checkFlags(flags *pflag.FlagSet) error {
	if err := checkOutput(i.output); err != nil {
		return err
	}
	if i.noDatabase && (i.database != "" || i.passwordFile != "") {
		return errors.New("--no-database and --database or --password-file: want one of them")
	}
	name := i.coordinator.given(flags)
	switch {
	case name == "":
	case i.noDatabase:
		return fmt.Errorf("--%s: with --no-database there is nothing to compare with Bursar's hosts", name)
	case !i.coordinator.named():
		return fmt.Errorf("--%s: want --addr or BURSAR_ADDR next to it", name)
	}
	return nil
}

func (i *invocation) compare(ctx context.Context, files []string) (*check.Report, error) {
	properties := check.Properties{}
	var modes []check.NamedMode
	for _, file := range files {
		name, text, err := i.readFile(file)
		if err != nil {
			return nil, err
		}
		own := check.Properties{}
		if err := own.Add(name, string(text)); err != nil {
			return nil, exit(exitConfig, err)
		}
		maps.Copy(properties, own)
		if mode := check.ModeOf(own); mode != "" {
			modes = append(modes, check.NamedMode{File: name, Mode: mode})
		}
	}
	if i.database != "" {
		properties.SetDatabase(i.database)
	}
	findings := append(check.Settings(properties), check.Modes(modes)...)
	if i.noDatabase {
		return check.NewReport(findings), nil
	}
	ecms, rows, err := readDatabase(ctx, properties, i.passwordFile)
	if err != nil {
		return nil, err
	}
	hosts, err := i.coordinator.hosts(ctx, i.Err)
	if err != nil {
		return nil, err
	}
	findings = append(findings, rows...)
	return check.NewReport(append(findings, check.Sizes(properties, ecms, hosts)...)), nil
}

// maxFile bounds a file of properties, maxPassword that of a password, in bytes.
const (
	maxFile     = 8 << 20
	maxPassword = 4096
)

// readFile reads a file, or standard input if the name is "-".
func (i *invocation) readFile(file string) (name string, text []byte, err error) {
	if name = file; file == "-" {
		name = "stdin"
		text, err = regularfile.ReadBounded(name, i.In, maxFile)
	} else {
		text, err = regularfile.ReadInput(file, maxFile)
	}
	if err != nil {
		return "", nil, fileError(fmt.Errorf("read: %w", err))
	}
	return name, text, nil
}

// readDatabase reads Linkis's database, and closes it.
func readDatabase(ctx context.Context, properties check.Properties, passwordFile string) ([]check.ECM, []check.Finding, error) {
	password := ""
	if passwordFile != "" {
		text, err := regularfile.Read(passwordFile, maxPassword)
		if err != nil {
			return nil, nil, fileError(fmt.Errorf("--password-file: %w", err))
		}
		password = strings.TrimSpace(string(text))
	}
	db, err := check.Open(ctx, properties, password)
	if err != nil {
		return nil, nil, databaseError(err)
	}
	defer db.Close()
	ecms, rows, err := db.Rows(ctx)
	if err != nil {
		return nil, nil, databaseError(err)
	}
	return ecms, rows, nil
}
