package main

import (
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// commandsOnStatus returns the commands that show a whole cluster.
func commandsOnStatus(c *cmdline.Invocation) []*cobra.Command {
	return cmdline.InGroup(cmdline.GroupLook, statusCommand(c.Connections), watchCommand(c.Connections), auditCommand(c.Connections))
}
