package main

import (
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// commandsOnAccess returns the commands on tokens.
func commandsOnAccess(c *cmdline.Invocation) []*cobra.Command {
	return cmdline.InGroup(cmdline.GroupOperate, tokenCommand(c.Printer))
}
