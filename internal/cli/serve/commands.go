package serve

import (
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// Commands returns the commands that run servers.
func Commands(c *cmdline.Invocation) []*cobra.Command {
	return cmdline.InGroup(cmdline.GroupServe, devCommand(c), coordinatorCommand(c), agentCommand(c))
}
