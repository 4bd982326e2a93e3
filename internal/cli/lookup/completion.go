package lookup

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// completionTime is how long the shell waits for what a server offers. It can do nothing else
// meanwhile.
const completionTime = 600 * time.Millisecond

// inTime bounds a completion that asks a server. A server that is not there, or that hangs, offers
// nothing.
func inTime(offer cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		cmd.SetContext(ctx)
		return offer(cmd, args, prefix)
	}
}

// CompleteProviders offers the shell the clusters that providers read.
func CompleteProviders(c *servers.Connections) cobra.CompletionFunc {
	return inTime(func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		res, err := cl.Queues().ListProviders(cmd.Context(), &bursarv1.ListProvidersRequest{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var found []cobra.Completion
		for _, p := range res.GetProviders() {
			found = append(found, cobra.CompletionWithDesc(render.ProviderName(p), render.ProviderState(p)))
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	})
}

// CompleteQueues offers the shell queues, as an argument or for --external.
func CompleteQueues(c *servers.Connections) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offerQueues(c)(cmd, args, "")
	}
}

func offerQueues(c *servers.Connections) cobra.CompletionFunc {
	return inTime(func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		page, err := cl.Queues().List(cmd.Context(), &bursarv1.QueueServiceListRequest{PageSize: MaxPage})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var found []cobra.Completion
		for _, q := range page.GetQueues() {
			if q.GetUnaddressable() != "" {
				continue
			}
			found = append(found, cobra.CompletionWithDesc(render.QueueAddress(q).String(), "available "+render.QuantitiesText(q.GetAvailable())))
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}
