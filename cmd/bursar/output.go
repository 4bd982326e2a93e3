package main

import (
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
)

// checkOutput refuses a form of output that does not exist.
func checkOutput(output string) error {
	if render.IsForm(output) {
		return nil
	}
	return failure.Usagef("--output %q: want table, wide or json", output)
}

// takesFile reports whether -o may name a file: that of run --remote for its output.
func takesFile(cmd *cobra.Command) bool {
	remote := cmd.Flags().Lookup("remote")
	return remote != nil && remote.Changed
}

// saysJSON reports whether a command line asks for JSON, even if it cannot be understood as a
// whole.
func saysJSON(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "--":
			return false
		case "-ojson", "-o=json", "--output=json":
			return true
		case "-o", "--output":
			return i+1 < len(args) && args[i+1] == render.OutputJSON
		}
	}
	return false
}
