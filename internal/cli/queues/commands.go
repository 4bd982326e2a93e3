package queues

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// Commands returns the commands on the queues of clusters, and on their providers.
func Commands(c *cmdline.Invocation) []*cobra.Command {
	return slices.Concat(
		cmdline.InGroup(cmdline.GroupLook, queuesCommand(c), providersCommand(c.Connections)),
		cmdline.InGroup(cmdline.GroupOperate, providerCommand(c.Connections)),
	)
}
