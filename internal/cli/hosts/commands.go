package hosts

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// Commands returns the commands on hosts.
func Commands(c *cmdline.Invocation) []*cobra.Command {
	return slices.Concat(
		cmdline.InGroup(cmdline.GroupLook, hostsCommand(c.Connections)),
		cmdline.InGroup(cmdline.GroupOperate, hostCommand(c.Connections)),
	)
}
