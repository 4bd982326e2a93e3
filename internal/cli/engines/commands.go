package engines

import (
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// Commands returns the commands that start and end engines.
func Commands(c *cmdline.Invocation) []*cobra.Command {
	return cmdline.InGroup(cmdline.GroupUse, runCommand(c), stopCommand(c.Connections))
}
