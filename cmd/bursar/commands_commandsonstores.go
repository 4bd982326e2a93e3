package main

import (
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// commandsOnStores returns the commands on stores.
func commandsOnStores(c *cmdline.Invocation) []*cobra.Command {
	return cmdline.InGroup(cmdline.GroupOperate, storeCommand(c.Printer))
}
