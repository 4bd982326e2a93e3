package access

import (
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// Commands returns the commands on tokens.
func Commands(c *cmdline.Invocation) []*cobra.Command {
	return cmdline.InGroup(cmdline.GroupOperate, tokenCommand(c.Printer))
}
