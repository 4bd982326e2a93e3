package allocations

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// Commands returns the commands on allocations, and those that ask for one.
func Commands(c *cmdline.Invocation) []*cobra.Command {
	return slices.Concat(
		cmdline.InGroup(cmdline.GroupUse, allocateCommand(c.Connections), confirmCommand(c.Connections), releaseCommand(c.Connections), cancelCommand(c.Connections), amendCommand(c.Connections), renewCommand(c.Connections), resizeCommand(c.Connections), explainCommand(c.Connections)),
		cmdline.InGroup(cmdline.GroupLook, allocationsCommand(c.Connections)),
	)
}
