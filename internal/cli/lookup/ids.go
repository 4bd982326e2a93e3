package lookup

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// idLength is the length of an allocation's id. A shorter text is the beginning of one.
	idLength = 13
	// maxCandidates is how many ids the error names if a prefix is not unique.
	maxCandidates = 8
)

// AllocationID completes the beginning of an allocation's id, live or ended, or finds it by its
// request id or its name. A whole id is taken as it is.
func AllocationID(ctx context.Context, cl *client.Client, text string) (string, error) {
	if text == "" {
		return "", failure.Usagef("an id that is empty")
	}
	if isAllocationID(text) {
		return text, nil
	}
	if len(text) < idLength {
		for _, ended := range []bool{false, true} {
			page, err := cl.Allocations().List(ctx, &bursarv1.AllocationServiceListRequest{
				IdPrefix: text, PageSize: maxCandidates + 1, Ended: ended,
			})
			if err != nil {
				return "", err
			}
			var ids []string
			for _, a := range page.GetAllocations() {
				ids = append(ids, a.GetId())
			}
			if id, err := unique("allocation", text, ids); id != "" || err != nil {
				return id, err
			}
		}
	}
	found, err := cl.Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{RequestId: text})
	switch {
	case client.NotFound(err) || client.Invalid(err):
		return allocationNamed(ctx, cl, text)
	case err != nil:
		return "", err
	}
	return found.GetAllocation().GetId(), nil
}

// isAllocationID reports whether a text is the whole id of an allocation. A request id may be as
// long, but hardly has its letters alone.
func isAllocationID(text string) bool {
	_, err := ledger.ParseID(text)
	return err == nil
}

// AllocationIDs is AllocationID for failure.EachID.
func AllocationIDs(ctx context.Context, cl *client.Client) func(text string) (string, error) {
	return func(text string) (string, error) { return AllocationID(ctx, cl, text) }
}

// LastTry reads the allocation of the last try of an engine, by the id of any of its tries.
func LastTry(ctx context.Context, cl *client.Client, id string) (*bursarv1.Allocation, error) {
	res, err := cl.Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: id, LastTry: true})
	return res.GetAllocation(), err
}

// Nearest returns a client of the server that is asked about allocations that are named by their
// ids, beginnings of these, or request ids.
func Nearest(c *servers.Connections, cmd *cobra.Command, texts []string) (*client.Client, error) {
	return c.NearestWith(cmd, func(ctx context.Context, server *client.Client) (bool, error) {
		for _, text := range texts {
			id, err := AllocationID(ctx, server, text)
			if err == nil {
				_, err = LastTry(ctx, server, id)
			}
			_, missing := errors.AsType[*failure.NoSuchError](err)
			switch {
			case missing || client.NotFound(err) || client.Denied(err) || client.Precondition(err):
				return false, nil
			case err != nil:
				return false, err // the command itself tells it
			}
		}
		return true, nil
	})
}

// HostID completes the beginning of a host's id.
func HostID(ctx context.Context, cl *client.Client, text string) (string, error) {
	if text == "" {
		return "", failure.Usagef("an id that is empty")
	}
	page, err := cl.Hosts().List(ctx, &bursarv1.HostServiceListRequest{IdPrefix: text, PageSize: maxCandidates + 1})
	if err != nil {
		return "", err
	}
	var ids []string
	for _, h := range page.GetHosts() {
		ids = append(ids, h.GetId())
	}
	id, err := unique("host", text, ids)
	if id == "" && err == nil {
		err = &failure.NoSuchError{What: "host", ID: text}
	}
	return id, err
}

// HostIDs is HostID for failure.EachID.
func HostIDs(ctx context.Context, cl *client.Client) func(text string) (string, error) {
	return func(text string) (string, error) { return HostID(ctx, cl, text) }
}

// HostsToCome is HostIDs for orders that may come before their host. A text that begins no host's
// id is the whole id of one that has not come; with exact, each text is a whole id.
func HostsToCome(ctx context.Context, cl *client.Client, exact bool) func(text string) (string, error) {
	return func(text string) (string, error) {
		if exact && text != "" {
			return text, nil
		}
		id, err := HostID(ctx, cl, text)
		if _, missing := errors.AsType[*failure.NoSuchError](err); missing {
			return text, nil
		}
		return id, err
	}
}

// unique returns the only id, or the one that equals the text; none if there is none.
func unique(what, text string, ids []string) (string, error) {
	for _, id := range ids {
		if id == text {
			return id, nil
		}
	}
	switch {
	case len(ids) == 0:
		return "", nil
	case len(ids) == 1:
		return ids[0], nil
	}
	return "", &failure.AmbiguousError{What: what, Prefix: text, Candidates: ids[:min(len(ids), maxCandidates)], More: len(ids) > maxCandidates}
}

// CompleteAllocations offers the shell ids of live allocations.
func CompleteAllocations(c *servers.Connections) cobra.CompletionFunc {
	return inTime(func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		cl, err := forCompletion(c, cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		page, err := cl.Allocations().List(cmd.Context(), &bursarv1.AllocationServiceListRequest{IdPrefix: prefix})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var found []cobra.Completion
		for _, a := range page.GetAllocations() {
			about := render.AllocationState(a.GetState()) + " " + render.LabelsText(a.GetLabels())
			if a.GetName() != "" {
				about = a.GetName() + " " + about
			}
			found = append(found, cobra.CompletionWithDesc(a.GetId(), about))
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	})
}

// forCompletion returns a client of the server that a command about allocations would ask.
func forCompletion(c *servers.Connections, cmd *cobra.Command) (*client.Client, error) {
	if !servers.AsksNearest(cmd) {
		return c.Either(cmd)
	}
	cl, _, err := c.NearestSilently(cmd)
	return cl, err
}

// CompleteOneAllocation offers ids for the first argument only.
func CompleteOneAllocation(c *servers.Connections) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return CompleteAllocations(c)(cmd, args, prefix)
	}
}

// CompleteHosts offers the shell ids of hosts.
func CompleteHosts(c *servers.Connections) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return OfferHosts(c)(cmd, args, prefix)
	}
}

// OfferHosts offers the shell the ids of hosts, for each argument or flag.
func OfferHosts(c *servers.Connections) cobra.CompletionFunc {
	return inTime(func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		page, err := cl.Hosts().List(cmd.Context(), &bursarv1.HostServiceListRequest{IdPrefix: prefix})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var found []cobra.Completion
		for _, h := range page.GetHosts() {
			found = append(found, cobra.CompletionWithDesc(h.GetId(), render.HostState(h)))
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	})
}

// CompleteSelectors offers the shell the selectors of quota rules.
func CompleteSelectors(c *servers.Connections) cobra.CompletionFunc {
	return inTime(func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		page, err := cl.Quotas().List(cmd.Context(), &bursarv1.QuotaServiceListRequest{PageSize: 1})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var found []cobra.Completion
		for _, q := range page.GetQuotas() {
			found = append(found, cobra.CompletionWithDesc(render.SelectorText(q.GetSelector()), render.ResourceText(q.GetLimit())))
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	})
}

// Complete adds the values that the shell can offer for flags, to every command that has them.
func Complete(c *servers.Connections, cmd *cobra.Command) {
	for flag, offer := range map[string]cobra.CompletionFunc{
		"host":     OfferHosts(c),
		"avoid":    OfferHosts(c),
		"external": offerQueues(c),
		"label": cobra.FixedCompletions([]cobra.Completion{"user=", "creator=", "engineType=", "tenant=", "cluster=", "queue="},
			cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp),
		"state": cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp),
		"phase": cobra.FixedCompletions(phaseNames(), cobra.ShellCompDirectiveNoFileComp),
	} {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, offer) // fails if there is no such flag
		}
	}
	if cmd.HasParent() {
		for _, child := range cmd.Commands() {
			Complete(c, child)
		}
		return
	}
	_ = cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions([]cobra.Completion{render.OutputTable, render.OutputWide, render.OutputJSON}, cobra.ShellCompDirectiveNoFileComp))
	for _, child := range cmd.Commands() {
		Complete(c, child)
	}
}
