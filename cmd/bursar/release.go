package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func (c *cli) releaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release ID…",
		Short: "Give everything back",
		Long: `Release gives back what an allocation holds. It is safe to do this twice.
Release does not end the engine: end it first, or use "bursar stop".`,
		Example: `  bursar release 3f7k
  bursar release 3f7k 9ab2 --reason "session closed"`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.completeAllocations,
	}
	reason := cmd.Flags().String("reason", "", "why, for the history")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		code := exitOK
		// Each by itself: if one is unknown, the others are released.
		for _, text := range args {
			err := c.onAllocation(cmd, text, func(ctx context.Context, cl *client.Client, id string) (*bursarv1.Allocation, error) {
				res, err := cl.Allocations().Release(ctx, &bursarv1.ReleaseRequest{Id: id, Reason: *reason})
				return res.GetAllocation(), err
			})
			if err != nil {
				c.report(err)
				code = exitCode(err)
			}
		}
		if code != exitOK {
			return &exitError{code: code}
		}
		return nil
	}
	return cmd
}

func (c *cli) resizeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resize ID",
		Short: "Change what an allocation is entitled to",
		Long: `Resize changes what an allocation is entitled to. A dimension that is not named
stays as it is, and so does a part in a queue of another cluster. More of
something is checked like a new request. --external changes a part that is
there; it cannot add one.`,
		Example: `  bursar resize 3f7k --memory 6GiB
  bursar resize 3f7k --cpu 1 --memory 2GiB
  bursar resize 3f7k --external yarn:prod:root.a,memory=128GiB`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeOneAllocation,
	}
	var entitled sizeFlags
	addSizeFlags(cmd, &entitled)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !entitled.isSet() {
			return usagef("no new size: want at least one of --memory, --cpu, --instances, --custom and --external")
		}
		return c.onAllocation(cmd, args[0], func(ctx context.Context, cl *client.Client, id string) (*bursarv1.Allocation, error) {
			res, err := cl.Allocations().Resize(ctx, &bursarv1.ResizeRequest{Id: id, Entitled: entitled.message()})
			return res.GetAllocation(), err
		})
	}
	return cmd
}

func (c *cli) stopCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop ID",
		Short: "Ask the host's agent to end an engine",
		Long: `Stop asks the agent of the engine's host to end the engine: first with SIGTERM,
and after the grace with SIGKILL. When the engine has ended, everything it held
is given back.`,
		Example: `  bursar stop 3f7k
  bursar stop 3f7k --grace 1m --reason "host maintenance"`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeOneAllocation,
	}
	grace := cmd.Flags().Duration("grace", 10*time.Second, "time between SIGTERM and SIGKILL")
	reason := cmd.Flags().String("reason", "", "why, for the history")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := withinBounds("--grace", *grace, &bursarv1.StopRequest{}, "grace"); err != nil {
			return err
		}
		return c.onAllocation(cmd, args[0], func(ctx context.Context, cl *client.Client, id string) (*bursarv1.Allocation, error) {
			res, err := cl.Allocations().Stop(ctx, &bursarv1.StopRequest{Id: id, Grace: durationpb.New(*grace), Reason: *reason})
			return res.GetAllocation(), err
		})
	}
	return cmd
}
