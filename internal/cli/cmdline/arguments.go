package cmdline

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// NoArguments takes flags only. It, ExactlyOne, AtMost and AtLeastOne check positional arguments
// as cobra's functions do. Their errors name the mistake and the right form.
func NoArguments(cmd *cobra.Command, args []string) error { return AtMost(0)(cmd, args) }

// ExactlyOne takes one argument.
func ExactlyOne() cobra.PositionalArgs { return cobra.MatchAll(AtLeastOne, AtMost(1)) }

// AtMost takes n arguments or fewer.
func AtMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch wanted := argumentsOf(cmd); {
		case len(args) <= n:
			return nil
		case wanted == "":
			return fmt.Errorf("%q: %s takes flags only", args[n], cmd.CommandPath())
		default:
			return fmt.Errorf("%q is one argument too many: want %s %s%s", args[n], cmd.CommandPath(), wanted, Singular(cmd, args[0]))
		}
	}
}

// Singular says which command was meant if a listing was given a word of its singular, as in "hosts
// drain vm-1"; else nothing.
func Singular(cmd *cobra.Command, word string) string {
	for _, other := range cmd.Parent().Commands() {
		if other.Name()+"s" != cmd.Name() {
			continue
		}
		for _, member := range other.Commands() {
			if member.Name() == word {
				return "; did you mean " + member.CommandPath() + "?"
			}
		}
	}
	return ""
}

// AtLeastOne takes one argument or more.
func AtLeastOne(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return nil
	}
	wanted := argumentsOf(cmd)
	first := strings.Fields(strings.NewReplacer("[flags]", "", "--", "").Replace(wanted))[0]
	return fmt.Errorf("no %s: want %s %s", strings.TrimSuffix(first, "…"), cmd.CommandPath(), wanted)
}

// argumentsOf is the text that the usage of a command shows behind its name.
func argumentsOf(cmd *cobra.Command) string {
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	return arguments
}
