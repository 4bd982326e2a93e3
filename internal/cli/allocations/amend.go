package allocations

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func amendCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "amend ID",
		Short: "Change a request that waits, in its place",
		Long: `Amend changes a request that waits, and keeps its place in the queue: it may ask
for less, wait longer or shorter, or have another priority (only some callers may
set that). What is not named stays. If the request fits now, it is granted.

With another wait the request needs its first caller no more: follow it with
"bursar watch" or "bursar allocations ID". An engine that was granted is changed
by "bursar resize".`,
		Example: `  bursar amend 3f7k --memory 4GiB
  bursar amend 3f7k --wait 1h
  bursar amend 3f7k --priority 10`,
		Args:              cmdline.ExactlyOne(),
		ValidArgsFunction: lookup.CompleteOneAllocation(c),
	}
	var size cmdline.SizeFlags
	cmdline.AddSizeFlags(cmd, &size)
	flags := cmd.Flags()
	var wait time.Duration
	cmdline.AddDuration(flags, &wait, "wait", "w", "how long it waits from now on, such as 1h")
	priority := flags.Int32("priority", 0, "higher goes first; only some callers may set it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !size.IsSet() && !flags.Changed("wait") && !flags.Changed("priority") {
			return failure.Usagef("no change: want at least one of --memory, --cpu, --instances, --custom, --external, --wait and --priority")
		}
		if flags.Changed("wait") {
			if wait == 0 {
				return failure.Usagef("--wait 0s: want at least 1s; bursar cancel %s ends the request", args[0])
			}
			if err := cmdline.WithinBounds("--wait", wait, &bursarv1.AmendRequest{}, "wait"); err != nil {
				return err
			}
		}
		return onAllocation(c, cmd, args[0], func(ctx context.Context, cl *client.Client, id string) (*bursarv1.Allocation, error) {
			req := &bursarv1.AmendRequest{Id: id}
			if size.IsSet() {
				req.Resource = size.Message()
			}
			if wait > 0 {
				req.Wait = durationpb.New(wait)
			}
			if flags.Changed("priority") {
				req.Priority = priority
			}
			res, err := cl.Allocations().Amend(ctx, req)
			return res.GetAllocation(), err
		})
	}
	return cmd
}
