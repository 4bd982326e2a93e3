package main

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func (c *cli) hostCommand() *cobra.Command {
	return family("host", "Cordon, drain and remove hosts",
		`Host commands take a host out of service and bring it back. "bursar hosts" shows
them.`,
		c.hostCordonCommand(), c.hostUncordonCommand(), c.hostDrainCommand(), c.hostRemoveCommand())
}

func (c *cli) hostCordonCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "cordon ID",
		Short:             "No new engines on this host; what runs goes on",
		Long:              "Cordon keeps new engines off a host. What runs there goes on.",
		Example:           `  bursar host cordon vm-1 --reason "new kernel"`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeHosts,
	}
	reason := cmd.Flags().String("reason", "", "why, for those who look at the host")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.onHost(cmd, args[0], func(ctx context.Context, cl *client.Client, id string) (*bursarv1.Host, error) {
			res, err := cl.Hosts().Cordon(ctx, &bursarv1.CordonRequest{HostId: id, Reason: *reason})
			return res.GetHost(), err
		})
	}
	return cmd
}

func (c *cli) hostUncordonCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "uncordon ID",
		Short:             "End a cordon or a drain",
		Long:              "Uncordon lets new engines onto a host again, after cordon or drain.",
		Example:           "  bursar host uncordon vm-1",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onHost(cmd, args[0], func(ctx context.Context, cl *client.Client, id string) (*bursarv1.Host, error) {
				res, err := cl.Hosts().Uncordon(ctx, &bursarv1.UncordonRequest{HostId: id})
				return res.GetHost(), err
			})
		},
	}
}

func (c *cli) hostDrainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drain ID",
		Short: "Cordon a host and let its engines end",
		Long: `Drain cordons a host and tells its agent. With --deadline its engines are asked
to stop after that time. Without it they go on until they end by themselves.`,
		Example: `  bursar host drain vm-1
  bursar host drain vm-1 --deadline 10m --reason "disk failing"`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeHosts,
	}
	reason := cmd.Flags().String("reason", "", "why, for those who look at the host")
	deadline := cmd.Flags().Duration("deadline", 0, "after this its engines are asked to stop")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := withinBounds("--deadline", *deadline, &bursarv1.DrainRequest{}, "deadline"); err != nil {
			return err
		}
		return c.onHost(cmd, args[0], func(ctx context.Context, cl *client.Client, id string) (*bursarv1.Host, error) {
			req := &bursarv1.DrainRequest{HostId: id, Reason: *reason}
			if cmd.Flags().Changed("deadline") {
				req.Deadline = durationpb.New(*deadline)
			}
			res, err := cl.Hosts().Drain(ctx, req)
			return res.GetHost(), err
		})
	}
	return cmd
}

func (c *cli) hostRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove ID",
		Short: "Forget a host that is gone",
		Long: `Remove forgets a host. A host with live engines is refused, unless --force says
that they are gone: then they count as lost. If an agent still runs there, it
brings its host and its engines back.`,
		Example: `  bursar host remove vm-1
  bursar host remove vm-1 --force`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeHosts,
	}
	force := cmd.Flags().Bool("force", false, "even with live engines: they become lost")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cl, err := c.coordinator(cmd.Context())
		if err != nil {
			return err
		}
		id, err := hostID(cmd.Context(), cl, args[0])
		if err != nil {
			return err
		}
		res, err := cl.Hosts().Deregister(cmd.Context(), &bursarv1.DeregisterRequest{HostId: id, Force: *force})
		if err != nil {
			return err
		}
		return c.print(res, func() { c.printf("%s removed\n", id) })
	}
	return cmd
}

// onHost changes the host that a text names, and prints the result.
func (c *cli) onHost(
	cmd *cobra.Command, text string, do func(context.Context, *client.Client, string) (*bursarv1.Host, error),
) error {
	cl, err := c.coordinator(cmd.Context())
	if err != nil {
		return err
	}
	id, err := hostID(cmd.Context(), cl, text)
	if err != nil {
		return err
	}
	host, err := do(cmd.Context(), cl, id)
	if err != nil {
		return err
	}
	return c.print(host, func() {
		note := hostNote(host)
		if note != "" {
			note = " (" + note + ")"
		}
		c.printf("%s %s%s, %d engines\n", host.GetId(), hostState(host), note, host.GetAccount().GetAllocations())
	})
}
