package hosts

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func hostCommand(c *servers.Connections) *cobra.Command {
	return cmdline.Family("host", "Cordon, drain and remove hosts",
		`Host commands take a host out of service and bring it back. "bursar hosts" shows
them. Of several hosts in one command each is tried, but nothing is done if one
is the beginning of no id or of several. The exit code is that of the first
failure.`,
		hostCordonCommand(c), hostUncordonCommand(c), hostDrainCommand(c), hostAcceptCommand(c), hostRemoveCommand(c))
}

func hostCordonCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cordon ID…",
		Short: "No new engines on this host; what runs goes on",
		Long: `Cordon keeps new engines off a host. What runs there goes on. With --for it ends
by itself; time in which no coordinator leads does not count.

A host need not have come yet. If no host has the name, or begins with it, the
order waits for the host that registers with it; bursar hosts shows the name as
expected, and uncordon takes the order back. With --exact the beginning of
another host's name does not count.`,
		Example: `  bursar host cordon vm-1 vm-2 --reason "new kernel"
  bursar host cordon vm-1 --for 2h
  bursar host cordon vm-9 --exact --reason "burn-in"`,
		Args:              cmdline.AtLeastOne,
		ValidArgsFunction: lookup.OfferHosts(c),
	}
	reason := cmd.Flags().String("reason", "", "why, for those who look at the host")
	length := cmdline.NewDuration(cmd.Flags(), 0, "for", "after this the cordon ends by itself, such as 2h")
	exact := cmd.Flags().Bool("exact", false, "take each ID as a whole name, of a host that may come later")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := &bursarv1.CordonRequest{Reason: *reason}
		if cmd.Flags().Changed("for") {
			if err := cmdline.WithinBounds("--for", *length, &bursarv1.CordonRequest{}, "length"); err != nil {
				return err
			}
			req.Length = durationpb.New(*length)
		}
		resolve := func(ctx context.Context, cl *client.Client) func(string) (string, error) {
			return lookup.HostsToCome(ctx, cl, *exact)
		}
		return onHosts(c, cmd, args, resolve, func(ctx context.Context, cl *client.Client, id string) (*bursarv1.Host, error) {
			res, err := cl.Hosts().Cordon(ctx, &bursarv1.CordonRequest{HostId: id, Reason: req.GetReason(), Length: req.GetLength()})
			sayIfExpected(c.Printer, res.GetHost())
			return res.GetHost(), err
		})
	}
	return cmd
}

// sayIfExpected says that an order waits for a host: the name may be a mistake.
func sayIfExpected(out *render.Printer, host *bursarv1.Host) {
	if host.GetState() == bursarv1.HostState_HOST_STATE_EXPECTED {
		out.Sayf("no host has the name %s yet: the order waits for it", host.GetId())
	}
}

func hostUncordonCommand(c *servers.Connections) *cobra.Command {
	return &cobra.Command{
		Use:               "uncordon ID…",
		Short:             "End a cordon or a drain",
		Long:              "Uncordon lets new engines onto a host again, after cordon or drain.",
		Example:           "  bursar host uncordon vm-1",
		Args:              cmdline.AtLeastOne,
		ValidArgsFunction: lookup.OfferHosts(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onHosts(c, cmd, args, lookup.HostIDs, func(ctx context.Context, cl *client.Client, id string) (*bursarv1.Host, error) {
				res, err := cl.Hosts().Uncordon(ctx, &bursarv1.UncordonRequest{HostId: id})
				return res.GetHost(), err
			})
		},
	}
}

func hostDrainCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drain ID…",
		Short: "Cordon a host and let its engines end",
		Long: `Drain cordons a host and tells its agent. With --deadline its engines are asked
to stop after that time. Without it they go on until they end by themselves.
Like cordon it may come before the host.

With --wait the command ends when nothing is left on any of the hosts, or with
code 1 when the time is over.`,
		Example: `  bursar host drain vm-1
  bursar host drain vm-1 --deadline 10m --reason "disk failing"
  bursar host drain vm-1 vm-2 --deadline 10m --wait 15m`,
		Args:              cmdline.AtLeastOne,
		ValidArgsFunction: lookup.OfferHosts(c),
	}
	reason := cmd.Flags().String("reason", "", "why, for those who look at the host")
	deadline := cmdline.NewDuration(cmd.Flags(), 0, "deadline", "after this its engines are asked to stop")
	wait := cmdline.NewDuration(cmd.Flags(), 0, "wait", "how long to wait until its engines have ended, such as 15m")
	exact := cmd.Flags().Bool("exact", false, "take each ID as a whole name, of a host that may come later")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cmdline.WithinBounds("--deadline", *deadline, &bursarv1.DrainRequest{}, "deadline"); err != nil {
			return err
		}
		if *wait < 0 {
			return failure.Usagef("--wait %s: want a duration that is not negative", cmdline.Hours(*wait))
		}
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return err
		}
		var full []string // hosts on which something is left
		failed := c.EachID(args, lookup.HostsToCome(cmd.Context(), cl, *exact), func(id string) error {
			req := &bursarv1.DrainRequest{HostId: id, Reason: *reason}
			if cmd.Flags().Changed("deadline") {
				req.Deadline = durationpb.New(*deadline)
			}
			res, err := cl.Hosts().Drain(cmd.Context(), req)
			if err != nil {
				return err
			}
			sayIfExpected(c.Printer, res.GetHost())
			if *wait > 0 && !isEmpty(res.GetHost()) {
				full = append(full, id)
				if c.IsJSON() {
					return nil // it is printed when it is empty
				}
			}
			return printHostLine(c.Printer, res.GetHost())
		})
		if len(full) == 0 {
			return failed
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *wait)
		defer cancel()
		late := c.Each(full, func(id string) error { return awaitEmpty(ctx, c.Printer, cl, id, *wait) })
		return cmp.Or(failed, late)
	}
	return cmd
}

// awaitEmpty waits until nothing is left on a host, and prints it.
func awaitEmpty(ctx context.Context, out *render.Printer, cl *client.Client, id string, most time.Duration) error {
	var last *bursarv1.Host
	err := cmdline.WaitFor(ctx, func() (bool, error) {
		res, err := cl.Hosts().Get(ctx, &bursarv1.HostServiceGetRequest{Id: id})
		if err == nil {
			last = res.GetHost()
		}
		return err == nil && isEmpty(last), err
	})
	switch {
	case err == nil:
		return printHostLine(out, last)
	case ctx.Err() != nil:
		return fmt.Errorf("host %s has %s left after %s", id, liveText(last), cmdline.Hours(most))
	}
	return err
}

// isEmpty reports whether nothing runs on a host or is reserved there.
func isEmpty(h *bursarv1.Host) bool { return h.GetAccount().GetAllocations() == 0 }

func hostRemoveCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove ID…",
		Short: "Forget a host that is gone",
		Long: `Remove forgets a host. A host with live engines is refused, unless --force says
that they are gone: then they count as lost. If an agent still runs there, it
brings its host and its engines back with its next report: stop it first. It
wants whole ids: the beginning of one could be that of another host later.`,
		Example: `  bursar host remove vm-1
  bursar host remove vm-1 --force`,
		Args:              cmdline.AtLeastOne,
		ValidArgsFunction: lookup.OfferHosts(c),
	}
	force := cmd.Flags().Bool("force", false, "even with live engines: they become lost")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return err
		}
		reports := make(map[string]bool)
		exactly := func(id string) (string, error) {
			if id == "" {
				return "", failure.Usagef("an id that is empty")
			}
			res, err := cl.Hosts().Get(cmd.Context(), &bursarv1.HostServiceGetRequest{Id: id})
			if client.NotFound(err) {
				err = &failure.NoSuchError{What: "host", ID: id}
			}
			reports[id] = res.GetHost().GetState() == bursarv1.HostState_HOST_STATE_HEALTHY
			return id, err
		}
		return c.EachID(args, exactly, func(id string) error {
			res, err := cl.Hosts().Deregister(cmd.Context(), &bursarv1.DeregisterRequest{HostId: id, Force: *force})
			if err != nil {
				return err
			}
			if reports[id] {
				c.Sayf("%s: its agent reports, and brings it back with its next report: stop the agent first to be rid of it", id)
			}
			return c.Print(res, func() { c.Printf("%s removed\n", id) })
		})
	}
	return cmd
}

func hostAcceptCommand(c *servers.Connections) *cobra.Command {
	return &cobra.Command{
		Use:   "accept HOST [ALLOCATION…]",
		Short: "Believe what a host says of its engines",
		Long: `Accept believes what a host's agent says of engines that the coordinator does not
know and that no seal vouches for, as after a restore of the store. Until then
they count for the user "@" and the host's id. From then on they count for the
users that the agent names, over a limit if need be. Without allocations it
accepts all on the host. Look at them first, with
"bursar allocations --host HOST" and "bursar allocations ALLOCATION".`,
		Example: `  bursar host accept vm-1
  bursar host accept vm-1 9hxn2v4c3t0e1`,
		Args:              cmdline.AtLeastOne,
		ValidArgsFunction: lookup.OfferHosts(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.Coordinator(cmd.Context())
			if err != nil {
				return err
			}
			host, err := lookup.HostID(cmd.Context(), cl, args[0])
			if err != nil {
				return err
			}
			all := &bursarv1.AcceptResponse{}
			for rest, left := args[1:], int64(math.MaxInt64); ; left = all.GetLeft() {
				res, err := cl.Hosts().Accept(cmd.Context(), &bursarv1.AcceptRequest{HostId: host, Ids: rest})
				if err != nil {
					return err
				}
				all.Accepted, all.Left = append(all.Accepted, res.GetAccepted()...), res.GetLeft()
				for _, a := range res.GetAccepted() {
					rest = slices.DeleteFunc(slices.Clone(rest), func(id string) bool { return id == a.GetId() })
				}
				if res.GetLeft() <= 0 || res.GetLeft() >= left || len(res.GetAccepted()) == 0 || len(args) > 1 && len(rest) == 0 {
					break
				}
			}
			return c.Print(all, func() {
				for _, a := range all.GetAccepted() {
					c.Printf("%s accepted: %s\n", a.GetId(), render.LabelsText(a.GetLabels()))
				}
				switch {
				case all.GetLeft() > 0:
					c.Printf("%d left: their claims are more than can be counted\n", all.GetLeft())
				case len(all.GetAccepted()) == 0:
					c.Sayf("host %s has no engines to accept", host)
				}
			})
		},
	}
}

// onHosts changes each of the hosts that texts name, and prints each.
func onHosts(
	c *servers.Connections, cmd *cobra.Command, texts []string, resolve func(context.Context, *client.Client) func(string) (string, error),
	do func(context.Context, *client.Client, string) (*bursarv1.Host, error),
) error {
	cl, err := c.Coordinator(cmd.Context())
	if err != nil {
		return err
	}
	return c.EachID(texts, resolve(cmd.Context(), cl), func(id string) error {
		host, err := do(cmd.Context(), cl, id)
		if err != nil {
			return err
		}
		return printHostLine(c.Printer, host)
	})
}

// printHostLine prints a host in one line, or all of it as JSON.
func printHostLine(out *render.Printer, host *bursarv1.Host) error {
	return out.Print(host, func() {
		note := render.HostNote(host, time.Now())
		if note != "" {
			note = " (" + note + ")"
		}
		out.Printf("%s %s%s, %s\n", host.GetId(), render.HostState(host), note, liveText(host))
	})
}
