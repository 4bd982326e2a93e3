package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/linkischeck"
	"github.com/bursar/bursar/internal/regularfile"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func linkisCommand(c *cmdline.Invocation) *cobra.Command {
	return cmdline.Family("linkis", "Look at an Apache Linkis that is to run on Bursar",
		`Linkis commands help to move an Apache Linkis to Bursar. See docs/linkis.md.`,
		linkisCheckCommand(c))
}

// linkisFlags say where the configuration is.
type linkisFlags struct {
	database, passwordFile string
	noDatabase             bool
}

func linkisCheckCommand(c *cmdline.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "What would be different with Bursar?",
		Long: `Check reads Linkis's properties files, a later one over an earlier one, and the
database that they name, and says what would be different on Bursar: sizes of
ECMs, limits that become quota rules, engines that run, queues, and settings
that are ignored or replaced. It changes nothing: it reads the database in one
read-only transaction. Passwords are never printed.

With --addr or BURSAR_ADDR the sizes are compared with what Bursar's hosts have.
A row with ! needs somebody to do or decide something first: -o json counts them
as attention. The code is 0 if everything could be read, whatever was found; 69
if the database does not answer, 77 if it does not let us in, 78 if a file or
the database's address is wrong.`,
		Example: `  bursar linkis check /opt/linkis/conf/linkis.properties \
    /opt/linkis/conf/linkis-cg-engineconnmanager.properties
  bursar linkis check linkis.properties --no-database
  bursar linkis check linkis.properties --addr http://rm-1:7070 -o json |
    jq -r '.findings[] | select(.attention) | .subject + ": " + .bursar'`,
		Args: cmdline.AtLeastOne,
	}
	var f linkisFlags
	cmd.Flags().StringVar(&f.database, "database", "", "Linkis's database, jdbc:mysql://HOST:PORT/NAME, instead of the one in the files")
	cmd.Flags().StringVar(&f.passwordFile, "password-file", "", "file with the database's password, instead of the one in the files")
	cmd.Flags().BoolVar(&f.noDatabase, "no-database", false, "look at the files alone")
	_ = cmd.MarkFlagFilename("password-file")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case f.noDatabase:
			return servers.Needless(cmd, "with --no-database there is nothing to compare with Bursar's hosts")
		case !comparesHosts(c.Connections):
			return servers.Needless(cmd, "want --addr or BURSAR_ADDR next to it")
		default:
			return servers.Needless(cmd, "hosts are those of a coordinator: want --addr", "addr", "token-file", "tls-ca", "tls-cert", "tls-key", "tls-server-name")
		}
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		report, err := checkLinkis(cmd.Context(), c, args, f)
		if err != nil {
			return err
		}
		if c.IsJSON() {
			text, err := json.Marshal(report)
			if err != nil {
				return fmt.Errorf("marshal: %w", err)
			}
			return c.PrintJSON(text)
		}
		return printLinkis(c.Printer, report)
	}
	return cmd
}

func checkLinkis(ctx context.Context, c *cmdline.Invocation, files []string, f linkisFlags) (*linkischeck.Report, error) {
	if f.noDatabase && (f.database != "" || f.passwordFile != "") {
		return nil, failure.Usagef("--no-database and --database or --password-file: want one of them")
	}
	properties := linkischeck.Properties{}
	var modes []linkischeck.NamedMode
	for _, file := range files {
		name, text, err := c.ReadFile(file)
		if err != nil {
			return nil, err
		}
		own := linkischeck.Properties{}
		if err := own.Add(name, string(text)); err != nil {
			return nil, failure.Config(err)
		}
		maps.Copy(properties, own)
		if mode := linkischeck.ModeOf(own); mode != "" {
			modes = append(modes, linkischeck.NamedMode{File: name, Mode: mode})
		}
	}
	if f.database != "" {
		properties.SetDatabase(f.database)
	}
	findings := append(linkischeck.Settings(properties), linkischeck.Modes(modes)...)
	if f.noDatabase {
		return linkischeck.NewReport(findings), nil
	}
	ecms, rows, err := readLinkis(ctx, properties, f.passwordFile)
	if err != nil {
		return nil, err
	}
	hosts, err := hostsToCompare(ctx, c.Connections)
	if err != nil {
		return nil, err
	}
	findings = append(findings, rows...)
	return linkischeck.NewReport(append(findings, linkischeck.Sizes(properties, ecms, hosts)...)), nil
}

const maxPassword = 4096

// readLinkis reads the database. It is closed when that is done.
func readLinkis(ctx context.Context, properties linkischeck.Properties, passwordFile string) ([]linkischeck.ECM, []linkischeck.Finding, error) {
	password := ""
	if passwordFile != "" {
		text, err := regularfile.Read(passwordFile, maxPassword)
		if err != nil {
			return nil, nil, fmt.Errorf("--password-file: %w", err)
		}
		password = strings.TrimSpace(string(text))
	}
	db, err := linkischeck.Open(ctx, properties, password)
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

// accessDenied are the errors of MariaDB and MySQL for a wrong password and for missing rights.
func accessDenied(number uint16) bool {
	return number == 1044 || number == 1045 || number == 1142 || number == 1698
}

func databaseError(err error) error {
	if _, wrong := errors.AsType[*linkischeck.SettingError](err); wrong {
		return failure.Config(err)
	}
	if refused, ok := errors.AsType[*mysql.MySQLError](err); ok && accessDenied(refused.Number) {
		return &failure.ExitError{Code: failure.ExitNotAllowed, Err: err}
	}
	return &failure.ExitError{Code: failure.ExitUnavailable, Err: err}
}

// comparesHosts reports whether the user has said where Bursar is.
func comparesHosts(c *servers.Connections) bool {
	return cmp.Or(c.Addr, os.Getenv("BURSAR_ADDR")) != ""
}

// hostsToCompare are Bursar's, if the user has said where it is; else nil.
func hostsToCompare(ctx context.Context, c *servers.Connections) ([]*bursarv1.Host, error) {
	if !comparesHosts(c) {
		return nil, nil
	}
	cl, err := c.Coordinator(ctx)
	if err != nil {
		return nil, err
	}
	hosts := []*bursarv1.Host{}
	for page, err := range cl.ListHosts(ctx, &bursarv1.HostServiceListRequest{PageSize: 1000}) {
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, page.GetHosts()...)
	}
	return hosts, nil
}

func printLinkis(out *render.Printer, report *linkischeck.Report) error {
	rows := make([][]string, 0, len(report.Findings))
	for _, f := range report.Findings {
		mark := ""
		if f.Attention {
			mark = "!"
		}
		rows = append(rows, []string{mark, f.Area, render.OneLine(f.Subject), render.OneLine(f.Now), render.OneLine(f.Bursar)})
	}
	out.Table([]string{" ", "ABOUT", "WHAT", "IN LINKIS", "ON BURSAR"}, rows)
	out.Printf("%s, %s\n", render.Counted(len(report.Findings), "difference", "differences"), render.Counted(report.Attention, "needs attention", "need attention"))
	return out.Lost()
}
