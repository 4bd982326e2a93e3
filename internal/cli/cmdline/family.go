package cmdline

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/failure"
)

// Family makes a command that only has subcommands.
func Family(use, short, long string, members ...*cobra.Command) *cobra.Command {
	parent := &cobra.Command{
		Use: use, Short: short, Long: long,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				meant := ""
				cmd.SuggestionsMinimumDistance = 2
				if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
					meant = fmt.Sprintf("; did you mean %s %s?", cmd.CommandPath(), near[0])
				}
				return failure.Usagef("unknown command %q for %q%s; see: %s --help", args[0], cmd.CommandPath(), meant, cmd.CommandPath())
			}
			return cmd.Help()
		},
	}
	parent.AddCommand(members...)
	return parent
}
