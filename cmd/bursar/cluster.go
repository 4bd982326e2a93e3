package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// clusterArg reads KIND:CLUSTER.
func clusterArg(text string) (kind, cluster string, err error) {
	at, err := resource.ParseQueue(text)
	if err != nil || at.Kind == "" || at.Cluster == "" || at.Path != "" {
		return "", "", failure.Usagef("%q: want KIND:CLUSTER, such as yarn:prod", text)
	}
	return at.Kind, at.Cluster, nil
}

// queueArg reads KIND, KIND:CLUSTER or KIND:CLUSTER:PATH[@PARTITION]. If there is a path, an empty
// cluster means the default one.
func queueArg(text string) (resource.Address, error) {
	at, err := resource.ParseQueue(text)
	if wrong, is := errors.AsType[*resource.FieldError](err); is {
		return at, failure.Usagef("%q: want %s", text, wrong.Want)
	}
	return at, nil
}

// completeProviders offers the shell the clusters that providers read.
func completeProviders(c *servers.Connections) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
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
			found = append(found, cobra.CompletionWithDesc(render.ProviderName(p), providerState(p)))
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeQueues offers the shell queues, as an argument or for --external.
func completeQueues(c *servers.Connections) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offerQueues(c)(cmd, args, "")
	}
}

func offerQueues(c *servers.Connections) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		page, err := cl.Queues().List(cmd.Context(), &bursarv1.QueueServiceListRequest{PageSize: maxPage})
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
	}
}
