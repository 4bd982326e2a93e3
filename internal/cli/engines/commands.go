package engines

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// Commands returns the commands that start engines, follow them and end them.
func Commands(c *cmdline.Invocation) []*cobra.Command {
	return slices.Concat(
		cmdline.InGroup(cmdline.GroupUse, runCommand(c), submitCommand(c), waitCommand(c.Connections), signalCommand(c.Connections), stopCommand(c.Connections)),
		cmdline.InGroup(cmdline.GroupLook, logsCommand(c.Connections)),
	)
}
