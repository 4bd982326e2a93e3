package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/spelling"
)

// linkisProgram is the program that `bursar linkis check` became: only sites with a Linkis need the
// driver of its database.
const linkisProgram = "bursar-linkis-check"

// linkisCommand says where `bursar linkis check` went. It is in no help and has no manual page.
func linkisCommand() *cobra.Command {
	parent := cmdline.Family("linkis", "Moved: "+linkisProgram+" looks at an Apache Linkis",
		linkisProgram+" is a program of its own, in the same package: it says what would be\n"+
			"different if an Apache Linkis ran on Bursar. See "+linkisProgram+" --help.",
		linkisCheckCommand())
	parent.Hidden = true
	return parent
}

// linkisCheckCommand understands the flags of the program, so that it can name the command line
// that does the same today.
func linkisCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check FILE...", Hidden: true,
		Short:   "Moved to a program of its own: " + linkisProgram,
		Long:    "Check is a program of its own, in the same package: see " + linkisProgram + " --help.",
		Example: "  " + linkisProgram + " linkis.properties --no-database",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return failure.Usagef("bursar linkis check is a program of its own now, in the same package: run: %s", linkisInstead(cmd.Flags(), args))
		},
	}
	flags := cmd.Flags()
	flags.String("database", "", "")
	flags.String("password-file", "", "")
	flags.Bool("no-database", false, "")
	flags.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	return cmd
}

// linkisInstead is the command line of the program with the arguments and flags of this one. The
// address of a database may hold a password, so its parameters are left out.
func linkisInstead(flags *pflag.FlagSet, files []string) string {
	words := []string{linkisProgram}
	for _, file := range files {
		words = append(words, spelling.Shell(file))
	}
	if len(files) == 0 {
		words = append(words, "FILE...")
	}
	flags.Visit(func(f *pflag.Flag) {
		switch value := f.Value.String(); {
		case f.Name == "agent": // the program compares with a coordinator's hosts alone
		case f.Name == "no-database":
			words = append(words, "--no-database")
		case f.Name == "database" && strings.ContainsAny(value, "@?"):
			words = append(words, "--database …")
		default:
			words = append(words, "--"+f.Name+" "+spelling.Shell(value))
		}
	})
	return strings.Join(words, " ")
}
