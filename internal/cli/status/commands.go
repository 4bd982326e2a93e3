package status

import (
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// Commands returns the commands that show a whole cluster.
func Commands(c *cmdline.Invocation) []*cobra.Command {
	return cmdline.InGroup(cmdline.GroupLook, statusCommand(c.Connections), watchCommand(c.Connections), auditCommand(c.Connections))
}
