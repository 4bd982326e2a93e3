package quotas

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// Commands returns the commands on quota rules.
func Commands(c *cmdline.Invocation) []*cobra.Command {
	return slices.Concat(
		cmdline.InGroup(cmdline.GroupLook, quotasCommand(c.Connections)),
		cmdline.InGroup(cmdline.GroupOperate, quotaCommand(c)),
	)
}
