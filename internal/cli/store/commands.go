package store

import (
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/render"
)

// Commands returns the commands on stores.
func Commands(c *cmdline.Invocation) []*cobra.Command {
	return cmdline.InGroup(cmdline.GroupOperate, storeCommand(c.Printer))
}

func storeCommand(out *render.Printer) *cobra.Command {
	return cmdline.Family("store", "Inspect, copy and repair the store of a coordinator",
		`Store commands work on the rows that coordinators keep: in a file for one
coordinator, or in a PostgreSQL database that several share.`,
		storeInfoCommand(out), storeCopyCommand(out), storeSetAsideCommand(out), storeEpochCommand(out))
}
