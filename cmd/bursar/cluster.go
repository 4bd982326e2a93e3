package main

import (
	"strings"

	"github.com/spf13/cobra"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// clusterArg reads KIND:CLUSTER.
func clusterArg(text string) (kind, cluster string, err error) {
	kind, cluster, found := strings.Cut(text, ":")
	if !found || kind == "" || cluster == "" || strings.Contains(cluster, ":") {
		return "", "", usagef("%q: want KIND:CLUSTER, such as yarn:prod", text)
	}
	return kind, cluster, nil
}

// queueArg reads KIND, KIND:CLUSTER or KIND:CLUSTER:PATH[@PARTITION]. If there is a path, an empty
// cluster means the default one.
func queueArg(text string) (resource.Address, error) {
	parts := strings.SplitN(text, ":", 3)
	at := resource.Address{Kind: parts[0]}
	if len(parts) > 1 {
		at.Cluster = parts[1]
	}
	if len(parts) > 2 {
		at.Path = parts[2]
		if i := strings.LastIndexByte(at.Path, '@'); i >= 0 {
			at.Path, at.Partition = at.Path[:i], at.Path[i+1:]
		}
	}
	if at.Kind == "" || len(parts) == 2 && at.Cluster == "" || len(parts) == 3 && at.Path == "" {
		return at, usagef("%q: want KIND:CLUSTER or KIND:CLUSTER:QUEUE, such as yarn:prod or yarn:prod:root.a", text)
	}
	return at, nil
}

func clusterText(kind, cluster string) string { return kind + ":" + cluster }

func providerName(p *bursarv1.Provider) string { return clusterText(p.GetKind(), p.GetCluster()) }

// completeProviders offers the shell the clusters that providers read.
func (c *cli) completeProviders(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cl, err := c.coordinator(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	res, err := cl.Queues().ListProviders(cmd.Context(), &bursarv1.ListProvidersRequest{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var found []cobra.Completion
	for _, p := range res.GetProviders() {
		found = append(found, cobra.CompletionWithDesc(providerName(p), providerState(p)))
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeQueues offers the shell queues, as an argument or for --external.
func (c *cli) completeQueues(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.offerQueues(cmd, args, "")
}

func (c *cli) offerQueues(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	cl, err := c.coordinator(cmd.Context())
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
		found = append(found, cobra.CompletionWithDesc(queueAddress(q).String(), "available "+quantitiesText(q.GetAvailable())))
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
