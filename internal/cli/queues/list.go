package queues

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

func queuesCommand(c *cmdline.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queues [KIND:CLUSTER[:QUEUE]]",
		Short: "The queues of other clusters, and what each has left",
		Long: `Queues shows the queues of the clusters that providers read, as a tree. For each
it shows the limit, what everybody uses, how much of that our allocations use,
and what a request could get now. That is the least that the queue and the
queues above it have left.

APPS are its applications: active, pending, and the limit. WAITING are the
requests that wait for it. AGE is the time since the cluster was read. -o wide
adds what is guaranteed, the shares of the cluster, and when it was read.

Of the queues that no cluster has, and that are there because requests name them,
it shows some, and says how many more there are. A queue that no request can name
has its name in double quotes, and the note says why.

With an argument it shows one cluster, or one queue and those below it. Name a
queue by its full path, or by its last name if that is unique.`,
		Example: `  bursar queues
  bursar queues yarn:prod -o wide
  bursar queues yarn:prod:root.a

  # in one partition
  bursar queues yarn:prod:root.a@gpu

  bursar queues -o json | jq '.queues[] | select(.unavailable != "")'

  # can the clusters be read, and by which server?
  bursar queues check

  # how bursar reads an answer of YARN
  bursar queues decode -f scheduler.json`,
		Args:              cmdline.AtMost(1),
		ValidArgsFunction: lookup.CompleteQueues(c.Connections),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var at resource.Address
		if len(args) == 1 {
			var err error
			if at, err = cmdline.QueueArg(args[0]); err != nil {
				return err
			}
		}
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return err
		}
		var most int32
		if !c.IsJSON() {
			most = mostUnreported
		}
		all, err := listQueues(cmd.Context(), cl, at, most)
		if err != nil {
			return err
		}
		if len(all.GetQueues()) == 0 {
			if err := whyNoQueues(cmd.Context(), c.Printer, cl, at); err != nil {
				return err
			}
		}
		return c.Print(all, func() {
			if len(all.GetQueues()) > 0 {
				render.PrintQueues(c.Printer, all.GetQueues())
			}
			if n := all.GetLeftOut(); n > 0 {
				c.Sayf("%d more queues are not shown: no cluster has them, requests name them; `bursar queues KIND:CLUSTER:QUEUE` shows those below one, -o json all", n)
			}
			if n := all.GetMoreUnaddressable(); n > 0 {
				c.Sayf("%d more queues are not shown: no request can name them", n)
			}
		})
	}
	cmd.AddCommand(queuesCheckCommand(c), queuesDecodeCommand(c))
	return cmd
}

// mostUnreported is how many queues of each page are shown that no cluster has.
const mostUnreported = 20

// listQueues returns the queues of a kind or of a cluster, or with a path that queue and those
// below it. Of those that no cluster has it returns so many of each page, if no path is given; 0:
// all.
func listQueues(ctx context.Context, cl *client.Client, at resource.Address, unreported int32) (*bursarv1.QueueServiceListResponse, error) {
	var top *bursarv1.Queue
	if at.Path != "" {
		found, err := cl.Queues().Get(ctx, &bursarv1.QueueServiceGetRequest{
			Kind: at.Kind, Cluster: at.Cluster, Path: at.Path, Partition: at.Partition,
		})
		if err != nil {
			return nil, err
		}
		top = found.GetQueue()
		at.Cluster = top.GetCluster()
	}
	all := &bursarv1.QueueServiceListResponse{}
	req := &bursarv1.QueueServiceListRequest{Kind: at.Kind, Cluster: at.Cluster, PageSize: lookup.MaxPage}
	if top == nil {
		req.MaxUnreported = unreported
	}
	for page, err := range cl.ListQueues(ctx, req) {
		if err != nil {
			return nil, err
		}
		all.LeftOut += page.GetLeftOut()
		all.MoreUnaddressable += page.GetMoreUnaddressable()
		for _, q := range page.GetQueues() {
			if top == nil || isBelow(q.GetPath(), top.GetPath()) && (at.Partition == "" || q.GetPartition() == at.Partition) {
				all.Queues = append(all.Queues, q)
			}
		}
	}
	if top != nil && len(all.GetQueues()) == 0 { // it has gone in the meantime
		all.Queues = append(all.Queues, top)
	}
	return all, nil
}

// isBelow reports whether a queue is top, or below it.
func isBelow(path, top string) bool {
	return path == top || strings.HasPrefix(path, top+".")
}

// whyNoQueues prints on stderr why there are no queues, or returns that there is no such cluster.
func whyNoQueues(ctx context.Context, out *render.Printer, cl *client.Client, at resource.Address) error {
	res, err := cl.Queues().ListProviders(ctx, &bursarv1.ListProvidersRequest{})
	if err != nil {
		return err
	}
	some := false
	for _, p := range res.GetProviders() {
		if at.Kind != "" && p.GetKind() != at.Kind || at.Cluster != "" && p.GetCluster() != at.Cluster {
			continue
		}
		some = true
		out.Sayf("no queues of %s: %s", render.ProviderName(p), cmp.Or(render.OneLine(p.GetHealth().GetMessage()), "not read yet"))
	}
	switch {
	case some:
		return nil
	case at.Cluster != "":
		return &failure.NoSuchError{What: "cluster", ID: render.ClusterText(at.Kind, at.Cluster)}
	case at.Kind != "":
		return &failure.NoSuchError{What: "kind of cluster", ID: at.Kind}
	}
	out.Sayf("no clusters: `bursar provider set` makes one known, or a file of providers; see: bursar provider --help")
	return nil
}
