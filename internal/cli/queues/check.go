package queues

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/kinds"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/providers/exec"
	"github.com/bursar/bursar/providers/providerfile"
)

func queuesCheckCommand(c *cmdline.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [KIND:CLUSTER | -f FILE]",
		Short: "Can the clusters be read, and by which server?",
		Long: `Check asks every server of every cluster, or of one cluster, what it is, and
reads the queues once. It changes nothing. The coordinator that leads does the
check, because it must reach the clusters. With -f this machine checks the
providers of a file, and needs no coordinator.

Code 0 means that every cluster was read, 69 that one cannot be read now. If its
configuration is wrong the code is 78 with -f, and else 65. With -o json there
is one answer for each cluster.`,
		Example: `  bursar queues check
  bursar queues check yarn:prod
  bursar queues check -f /etc/bursar/providers.yaml`,
		Args:              cmdline.AtMost(1),
		ValidArgsFunction: lookup.CompleteProviders(c.Connections),
	}
	file := cmd.Flags().StringP("file", "f", "", "file of providers to check from here; - is standard input")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if *file != "" {
			if len(args) > 0 {
				return failure.Usagef("%s and -f: want one of them", args[0])
			}
			return checkFile(ctx, c, *file)
		}
		cl, err := c.Coordinator(ctx)
		if err != nil {
			return err
		}
		if len(args) == 1 {
			kind, cluster, err := cmdline.ClusterArg(args[0])
			if err != nil {
				return err
			}
			return checkByCoordinator(ctx, c.Reporter, cl, selection{list: []*bursarv1.Provider{{Kind: kind, Cluster: cluster}}})
		}
		configured, err := cl.Queues().ListProviders(ctx, &bursarv1.ListProvidersRequest{})
		if err != nil {
			return err
		}
		if len(configured.GetProviders()) == 0 {
			printProviders(c.Printer, nil)
		}
		return checkByCoordinator(ctx, c.Reporter, cl, selection{configured.GetProviders(), true})
	}
	return cmd
}

// selection is the clusters to check.
type selection struct {
	list []*bursarv1.Provider
	// all: there are no others, so the default of a kind is known.
	all bool
}

// checkTimeout is longer than any reading that a coordinator makes for a check may take.
const checkTimeout = time.Minute

// checkByCoordinator makes the coordinator check clusters, one after another. It ends with the
// code of the first that failed.
func checkByCoordinator(ctx context.Context, c *failure.Reporter, cl *client.Client, s selection) error {
	cl = cl.With(client.WithTimeout(checkTimeout))
	return checkAll(ctx, c, s, func(p *bursarv1.Provider) (*bursarv1.CheckProviderResponse, error) {
		asked := &bursarv1.Provider{Kind: p.GetKind(), Cluster: p.GetCluster()}
		if p.GetSource() == "" { // not one that was listed
			asked.Settings = p.GetSettings()
		}
		return cl.Queues().CheckProvider(ctx, &bursarv1.CheckProviderRequest{Provider: asked})
	})
}

// checkFile checks the providers of a file from this machine.
func checkFile(ctx context.Context, c *cmdline.Invocation, file string) error {
	name, data, err := c.ReadFile(file)
	if err != nil {
		return err
	}
	kinds := kinds.Known()
	list, err := providerfile.Parse(name, data, kinds)
	if err != nil {
		return failure.Config(err)
	}
	if len(list) == 0 {
		c.Sayf("%s: no providers", name)
	}
	// A process that a provider has started ends with us: it is in no group that the terminal
	// signals.
	ctx, interrupts := cmdline.CatchInterrupts(ctx)
	defer interrupts.Stop()
	err = checkAll(ctx, c.Reporter, selection{list, true}, func(p *bursarv1.Provider) (*bursarv1.CheckProviderResponse, error) {
		return checkHere(ctx, kinds, p)
	})
	if code, interrupted := interrupts.Code(); interrupted {
		return &failure.ExitError{Code: code}
	}
	return err
}

// checkAll checks one cluster after another and prints each result. If one fails, it goes on with
// the next. It ends with ctx.
func checkAll(ctx context.Context, c *failure.Reporter, s selection, check func(*bursarv1.Provider) (*bursarv1.CheckProviderResponse, error)) error {
	code := failure.ExitOK
	for i, p := range s.list {
		res, err := check(p)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			err = c.Print(res, func() {
				if i > 0 {
					c.Printf("\n")
				}
				printCheck(c.Printer, res, s)
			})
			if err == nil && res.GetProvider().GetHealth().GetState() != bursarv1.ProviderHealth_STATE_KNOWN {
				err = &failure.ExitError{Code: failure.ExitUnavailable}
			}
		}
		if err != nil && len(s.list) == 1 {
			return err
		}
		if err != nil {
			c.Report(err)
			if code == failure.ExitOK {
				code = failure.ExitCode(err)
			}
		}
	}
	if code != failure.ExitOK {
		return &failure.ExitError{Code: code}
	}
	return nil
}

// printCheck prints the result of a check: a line for each server, the figures, and the oddities.
func printCheck(out *render.Printer, res *bursarv1.CheckProviderResponse, among selection) {
	p := res.GetProvider()
	out.Printf("%s\n", render.ProviderName(p))
	var rows [][]string
	for _, s := range res.GetServers() {
		// The address stands in front of it already.
		wrong := strings.TrimPrefix(render.OneLine(s.GetError()), s.GetAddress()+" ")
		rows = append(rows, []string{"  " + s.GetAddress(), s.GetRole(), s.GetVersion(), secondsText(s.GetTook().AsDuration()), wrong})
	}
	if len(rows) > 0 {
		out.Table([]string{"  SERVER", "ROLE", "VERSION", "TOOK", "ERROR"}, rows)
	}
	h := p.GetHealth()
	facts := []string{"  queues", "", "  default", among.defaultNote(p), "  cannot be read", ""}
	if h.GetState() == bursarv1.ProviderHealth_STATE_KNOWN {
		facts[1] = queuesNote(res.GetQueues())
	} else {
		facts[5] = cmp.Or(render.OneLine(h.GetMessage()), "it did not say why")
	}
	for _, warning := range checkWarnings(res) {
		facts = append(facts, "  warning", warning)
	}
	out.Facts(facts...)
	if p.GetKind() == exec.Kind().Name() && h.GetState() == bursarv1.ProviderHealth_STATE_KNOWN {
		printFigures(out, res.GetQueues())
	}
}

// mostFigures is how many queues of a check are shown with their figures.
const mostFigures = 50

// printFigures shows the queues that the figures of a command became.
func printFigures(out *render.Printer, queues []*bursarv1.Queue) {
	rows := make([][]string, 0, len(queues))
	for _, q := range queues[:min(len(queues), mostFigures)] {
		path := q.GetPath()
		if q.GetPartition() != "" {
			path += "@" + q.GetPartition()
		}
		limit := render.ResourceText(q.GetAccount().GetLimit())
		rows = append(rows, []string{"  " + path, cmp.Or(limit, "none"), cmp.Or(render.ResourceText(q.GetUsed()), "none"), q.GetState()})
	}
	out.Table([]string{"  QUEUE", "LIMIT", "USED", "STATE"}, rows)
	if more := len(queues) - mostFigures; more > 0 {
		out.Printf("  %d more\n", more)
	}
}

func queuesNote(queues []*bursarv1.Queue) string {
	paths, partitions := map[string]bool{}, map[string]bool{}
	for _, q := range queues {
		paths[q.GetPath()], partitions[q.GetPartition()] = true, true
	}
	text := fmt.Sprint(len(paths))
	if len(partitions) > 1 {
		text += fmt.Sprintf(" in %d partitions", len(partitions))
	}
	return text
}

// defaultNote says whether requests that name no cluster mean this one; empty if that is not
// known.
func (s selection) defaultNote(p *bursarv1.Provider) string {
	if !s.all {
		return ""
	}
	for _, listed := range s.list { // the configuration, which the answer need not repeat
		if render.ProviderName(listed) == render.ProviderName(p) {
			p = listed
		}
	}
	return cmp.Or(defaultText(p, s.list), "no")
}

// checkWarnings are the oddities of a cluster that a person should know although it was read.
func checkWarnings(res *bursarv1.CheckProviderResponse) (warnings []string) {
	h := res.GetProvider().GetHealth()
	if h.GetState() != bursarv1.ProviderHealth_STATE_KNOWN {
		return nil
	}
	if h.GetMessage() != "" {
		warnings = append(warnings, render.OneLine(h.GetMessage()))
	}
	var active, versions []string
	for _, s := range res.GetServers() {
		if s.GetError() != "" {
			warnings = append(warnings, s.GetAddress()+" does not answer as it should: after a failover to it the cluster could not be read")
		}
		if s.GetRole() == "active" {
			active = append(active, s.GetAddress())
		}
		if s.GetVersion() != "" && !slices.Contains(versions, s.GetVersion()) {
			versions = append(versions, s.GetVersion())
		}
	}
	if len(active) > 1 {
		warnings = append(warnings, "several servers say that they are active: "+strings.Join(active, ", ")+"; are they of one cluster?")
	}
	if len(versions) > 1 {
		warnings = append(warnings, "the servers are of different versions: "+strings.Join(versions, ", "))
	}
	if took := h.GetTook().AsDuration(); took > time.Second {
		warnings = append(warnings, "reading took "+secondsText(took)+": it will be asked less often")
	}
	return warnings
}

// checkHere asks a cluster from this machine, as a coordinator would.
func checkHere(ctx context.Context, kinds providers.Kinds, p *bursarv1.Provider) (*bursarv1.CheckProviderResponse, error) {
	kind, err := kinds.Find(p.GetKind())
	if err != nil {
		return nil, failure.Config(err)
	}
	pace, err := providers.PaceFrom(p.GetSettings())
	if err != nil {
		return nil, failure.Config(err)
	}
	opened, err := kind.Open(p.GetCluster(), p.GetSettings())
	if err != nil {
		return nil, failure.Config(fmt.Errorf("%s: %w", render.ProviderName(p), err))
	}
	provider := providers.Clean(opened)
	defer provider.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, pace.Timeout, fmt.Errorf("no answer within %s", pace.Timeout))
	defer cancel()
	res := &bursarv1.CheckProviderResponse{Provider: p}
	for _, s := range provider.Servers(ctx) {
		check := &bursarv1.ServerCheck{Address: s.Address, Role: s.Role, Version: s.Version, Took: durationpb.New(s.Took)}
		if s.Err != nil {
			check.Error = providers.Said(s.Err.Error())
		}
		res.Servers = append(res.Servers, check)
	}
	began := time.Now()
	snapshot, err := provider.Snapshot(ctx)
	health := &bursarv1.ProviderHealth{
		State: bursarv1.ProviderHealth_STATE_KNOWN, Server: snapshot.Server, Took: durationpb.New(time.Since(began)),
		Queues: int32(len(snapshot.Queues)), Message: snapshot.Doubts, //nolint:gosec // bounded by the provider
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %s", pace.Timeout)
	case err == nil && snapshot.Untrusted != "":
		err = errors.New(snapshot.Untrusted)
	}
	if err != nil {
		health.State, health.Message = bursarv1.ProviderHealth_STATE_UNKNOWN, providers.Said(err.Error())
	}
	p.Health = health
	for i := range snapshot.Queues {
		res.Queues = append(res.Queues, queueMessage(p, &snapshot.Queues[i]))
	}
	for _, u := range snapshot.Unaddressable {
		res.Queues = append(res.Queues, unaddressableMessage(p, &u))
	}
	return res, nil
}

// unaddressableMessage is a queue that no request can name as a message of the API.
func unaddressableMessage(p *bursarv1.Provider, u *providers.Unaddressable) *bursarv1.Queue {
	path := strings.TrimPrefix(u.Parent+"."+u.Name, ".")
	return &bursarv1.Queue{
		Kind: p.GetKind(), Cluster: p.GetCluster(), Path: path, Parent: u.Parent, Partition: u.Partition,
		Unaddressable: u.Reason, Unavailable: "no request can name it: " + u.Reason,
	}
}

// queueMessage is a cluster's queue as a message of the API.
func queueMessage(p *bursarv1.Provider, q *providers.Queue) *bursarv1.Queue {
	return &bursarv1.Queue{
		Kind: p.GetKind(), Cluster: p.GetCluster(), Path: q.Path, Parent: q.Parent, Partition: q.Partition, State: q.State,
		Account: &bursarv1.Account{Limit: convert.VectorToProto(q.Limit)},
		Used:    convert.VectorToProto(q.Used), Guaranteed: convert.VectorToProto(q.Guaranteed), CreatesChildren: q.CreatesChildren, LeavesOnly: q.LeavesOnly,
		AbsoluteCapacity: q.AbsoluteCapacity, AbsoluteMaxCapacity: q.AbsoluteMaxCapacity,
		Applications: q.Applications, Pending: q.Pending, Active: q.Active, MaxApplications: q.MaxApplications,
	}
}
