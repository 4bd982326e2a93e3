package serve

import (
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
)

func addCheckFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("check", false, "only check the configuration and the files that it names; start and change nothing")
}

// reportCheck prints that a configuration is fine, or returns its fault as an error of the
// configuration.
func reportCheck(out *render.Printer, loaded *configuration, err error) error {
	if err != nil {
		return failure.Config(err)
	}
	for _, variable := range loaded.unknown {
		out.Sayf("%s: sets nothing: want %s", variable, loaded.suggestion(variable))
	}
	name := "the standard configuration"
	if loaded.doc != nil {
		name = loaded.file
	}
	out.Printf("%s: fine\n", name)
	return nil
}
