package main

import (
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// commandsOnEngines returns the commands that start and end engines.
func commandsOnEngines(c *cmdline.Invocation) []*cobra.Command {
	return cmdline.InGroup(cmdline.GroupUse, runCommand(c), stopCommand(c.Connections))
}
