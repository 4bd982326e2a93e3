package allocations

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/requests"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func explainCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [ID | flags of allocate]",
		Short: "Why a request waits, was refused, or what it would meet",
		Long: `Explain says why a request waits, or what a request would meet now. It shows
every account of the request with its numbers, and how much is missing in which
of them. It shows how many hosts each step of the search removed, and the place
in the queue. Of a request that has waited for long while later ones were
granted, it names the largest allocations that stand in its way. It changes
nothing.

A request that names no host with --host is tried on all hosts. An agent tries it
on its own host. On an engine host Explain asks the host's agent, if you name no
server.`,
		Example: `  # a request that was not made
  bursar explain -m 4GiB -c 2 --label user=alice --label creator=IDE

  # one that waits, or has ended
  bursar explain 3f7k

  bursar explain -m 16GiB --custom gpu=1 -l user=alice -o json

  # also its queue, with those above it
  bursar explain -m 4GiB -l user=alice \
    --external yarn:prod:root.a,memory=64GiB,cpu=16`,
		Args:              cmdline.AtMost(1),
		ValidArgsFunction: lookup.CompleteOneAllocation(c),
	}
	f := requests.AddFlags(cmd)
	requests.AddPlaceFlags(cmd, f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cl, err := lookup.Nearest(c, cmd, args)
		if err != nil {
			return err
		}
		req, err := explainRequest(cmd.Context(), cl, f, args)
		if err != nil {
			return err
		}
		res, err := cl.Allocations().Explain(cmd.Context(), req)
		if err != nil {
			return err
		}
		if req.GetId() != "" {
			render.SayTriedAgain(c.Printer, req.GetId(), res.GetAllocation())
		}
		return c.Print(res, func() { render.PrintExplanation(c.Printer, res) })
	}
	return cmd
}

func explainRequest(ctx context.Context, cl *client.Client, f *requests.Flags, args []string) (*bursarv1.ExplainRequest, error) {
	if len(args) == 0 {
		req, err := f.Request()
		if err != nil {
			return nil, err
		}
		return &bursarv1.ExplainRequest{Request: req}, nil
	}
	if f.Resource.IsSet() || len(f.Labels) > 0 {
		return nil, failure.Usagef("an id and the flags of a request: want one of them")
	}
	id, err := lookup.AllocationID(ctx, cl, args[0])
	if err != nil {
		return nil, err
	}
	return &bursarv1.ExplainRequest{Id: id}, nil
}
