package status

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func watchCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [ID]",
		Short: "Follow every change as it happens",
		Long: `Watch prints every change of allocations, hosts and rules as it happens, until
it is interrupted. With an id, --label, --mine, --host or --agent it prints the
changes of those allocations only. If nobody answers it says so on standard error, and
goes on from where it was as soon as somebody does, even after days. If what came
since then is no longer held, as by a new leader, it goes on from now and says on
standard error which revisions may be missing.

Each line has the time at which it happened, in this machine's zone, then the
revision, then what changed, and "by" whom; nobody is named if the coordinator
did it itself, as when something expires. --after takes the revision of a line
and prints what came after it: a number, no time. With -o json each line is one
message, with its "revision", "time" and "actor".`,
		Example: `  bursar watch
  bursar watch --label user=alice
  bursar watch 3f7k
  bursar watch --after 4711 -o json`,
		Args:              cmdline.AtMost(1),
		ValidArgsFunction: lookup.CompleteOneAllocation(c),
	}
	labels := cmdline.FilterFlag{}
	cmd.Flags().VarP(labels, "label", "l", "only allocations with this label, * for any value; repeatable")
	mine := cmd.Flags().Bool("mine", false, "only your own: with your name as the label user")
	host := cmd.Flags().String("host", "", "only allocations on this host")
	after := cmd.Flags().Uint64("after", 0, "changes after this revision (default: from now on)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, interrupts := cmdline.CatchInterrupts(cmd.Context())
		defer interrupts.Stop()
		cl, err := c.Either(cmd)
		if err != nil {
			return err
		}
		watched := cl.With(client.WithRetries(followRetries()), client.WithNotice(servers.UnansweredUnseen, func(err error) { tellOutage(c.Reporter, err) })).With(client.WithGaps(func(after, upTo uint64) { tellGap(c.Printer, after, upTo) }))
		if *mine {
			if labels, err = lookup.OwnLabels(ctx, watched, labels); err != nil {
				return err
			}
		}
		if len(args) == 0 && len(labels) == 0 && *host == "" && !cmd.Flags().Changed("agent") {
			known := make(render.OverUsers)
			for msg, err := range watched.WatchCluster(ctx, &bursarv1.ClusterServiceWatchRequest{AfterRevision: *after}) {
				if err != nil {
					return err
				}
				if err := printChange(c.Printer, msg, known); err != nil {
					return err
				}
			}
			return nil
		}
		known := make(render.OverUsers)
		req := &bursarv1.AllocationServiceWatchRequest{AfterRevision: *after, Labels: labels, HostId: *host}
		if len(args) == 1 {
			if req.Id, err = lookup.AllocationID(ctx, cl, args[0]); err != nil {
				return err
			}
		}
		for msg, err := range watched.WatchAllocations(ctx, req) {
			if err != nil {
				return err
			}
			change := &bursarv1.ClusterServiceWatchResponse{Revision: msg.GetRevision(), Time: msg.GetTime(), Actor: msg.GetActor()}
			if msg.GetAllocation() != nil {
				change.Change = &bursarv1.ClusterServiceWatchResponse_Allocation{Allocation: msg.GetAllocation()}
			}
			if err := printChange(c.Printer, change, known); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// followRetries are those of a command that follows for days: it ends if nobody is at the address,
// or if the address looks wrong, and otherwise never.
func followRetries() client.RetryPolicy {
	return client.RetryPolicy{Patience: servers.AbsentPatience, Absent: servers.AbsentPatience, Present: math.MaxInt64, Refused: math.MaxInt64}
}

// tellOutage says that no server answers a command that follows changes.
func tellOutage(c *failure.Reporter, err error) {
	c.Sayf("bursar: %s%s", c.Message(err), servers.TryingAgain)
}

// tellGap says that the server did not keep the changes after the last one.
func tellGap(out *render.Printer, after, upTo uint64) {
	out.Sayf("bursar: changes after revision %d up to %d may have been missed", after, upTo)
}

// printChange prints one change in one line. Keep-alives are not printed.
func printChange(out *render.Printer, msg *bursarv1.ClusterServiceWatchResponse, known render.OverUsers) error {
	if msg.GetChange() == nil {
		return nil
	}
	if out.IsJSON() {
		return out.PrintLine(msg)
	}
	when, what := changeText(msg, known)
	if actor := msg.GetActor(); actor != "" {
		what += "  by " + actor
	}
	_, err := fmt.Fprintf(out, "%s  %d  %s\n", render.Local(when).Format(time.DateTime), msg.GetRevision(), render.Printable(what))
	return err //nolint:wrapcheck // names the file
}

// changeText names a change and its time.
func changeText(msg *bursarv1.ClusterServiceWatchResponse, known render.OverUsers) (when time.Time, what string) {
	when = time.Now()
	if msg.GetTime() != nil {
		when = msg.GetTime().AsTime()
	}
	switch change := msg.GetChange().(type) {
	case *bursarv1.ClusterServiceWatchResponse_Allocation:
		a := change.Allocation
		text := fmt.Sprintf("%s  %s", a.GetId(), render.AllocationLine(a))
		if status := render.ExitNote(a); status != "" {
			text += "  " + status
		}
		began, update := known.Update(a, when)
		if update != "" {
			text += "  " + update
		}
		if msg.GetTime() == nil { // of a server that does not say it
			when = transitionTime(a, when)
			if !began.IsZero() {
				when = began
			}
		}
		return when, text + "  " + render.LabelsText(a.GetLabels())
	case *bursarv1.ClusterServiceWatchResponse_Host:
		h := change.Host
		text := fmt.Sprintf("host %s  %s", h.GetId(), render.HostState(h))
		if note := render.HostNote(h, time.Now()); note != "" {
			text += " (" + note + ")"
		}
		return when, text
	case *bursarv1.ClusterServiceWatchResponse_Quota:
		return when, "quota " + render.QuotaLine(change.Quota) + "  from " + change.Quota.GetSource()
	case *bursarv1.ClusterServiceWatchResponse_QuotaDeleted:
		return when, fmt.Sprintf("quota %s  deleted", change.QuotaDeleted)
	case *bursarv1.ClusterServiceWatchResponse_HostDeleted:
		return when, fmt.Sprintf("host %s  removed", change.HostDeleted)
	}
	return when, strings.TrimSpace(msg.String())
}

// transitionTime is when the allocation came into its state, if it says so.
func transitionTime(a *bursarv1.Allocation, otherwise time.Time) time.Time {
	for _, t := range []*timestamppb.Timestamp{a.GetEndTime(), a.GetConfirmTime(), a.GetReserveTime(), a.GetCreateTime()} {
		if t != nil {
			return t.AsTime()
		}
	}
	return otherwise
}
