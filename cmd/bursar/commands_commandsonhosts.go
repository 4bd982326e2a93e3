package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// commandsOnHosts returns the commands on hosts.
func commandsOnHosts(c *cmdline.Invocation) []*cobra.Command {
	return slices.Concat(
		cmdline.InGroup(cmdline.GroupLook, hostsCommand(c.Connections)),
		cmdline.InGroup(cmdline.GroupOperate, hostCommand(c.Connections)),
	)
}
