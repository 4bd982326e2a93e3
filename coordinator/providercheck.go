package coordinator

import (
	"context"
	"fmt"

	"github.com/bursar/bursar/coordinator/clusters"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// CheckProvider asks a cluster once, through a provider of its own, and returns the result.
func (s *queueService) CheckProvider(ctx context.Context, req *bursarv1.CheckProviderRequest) (*bursarv1.CheckProviderResponse, error) {
	record, configured, err := s.checked(ctx, req.GetProvider())
	if err != nil {
		return nil, err
	}
	res := &bursarv1.CheckProviderResponse{Provider: s.providerMessage(&record, nil)}
	var opened providers.Provider
	var pace providers.Pace
	err = clusters.CatchPanic(func() (err error) {
		opened, pace, err = s.pollers.Open(&record)
		return err
	})
	switch {
	case err != nil && configured:
		res.Provider.Health.Message = providers.Said(err.Error())
		return res, nil
	case err != nil:
		return nil, wrongSetting(err)
	}
	// The provider served this check only.
	defer func() { _ = clusters.CatchPanic(opened.Close) }()
	c := &providerCheck{provider: opened, pace: pace, clock: s.loop.Clock, res: res}
	c.snapshot(ctx)
	c.servers(ctx)
	return res, nil
}

// checked returns the provider to check: a configured one if the request has only kind and cluster,
// otherwise the one in the request.
func (s *queueService) checked(ctx context.Context, m *bursarv1.Provider) (record ledger.ProviderRecord, configured bool, err error) {
	record = providerRecord(m)
	record.Source = ledger.SourceAPI
	if len(record.Settings) > 0 {
		return record, false, s.checkSettings(&record)
	}
	record, err = commit.Decide(ctx, s.loop, func(l *ledger.Ledger, _ ledger.Instant) (ledger.ProviderRecord, error) {
		for _, p := range l.Providers() {
			if p.ClusterName == record.ClusterName {
				return p, nil
			}
		}
		return record, &ledger.NotFoundError{What: "provider", ID: record.String()}
	})
	return record, true, err
}

// providerCheck is one check.
type providerCheck struct {
	provider providers.Provider
	pace     providers.Pace
	clock    core.Steady
	res      *bursarv1.CheckProviderResponse
}

// snapshot reads the queues.
func (c *providerCheck) snapshot(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.pace.Timeout, fmt.Errorf("no answer within %s", c.pace.Timeout))
	defer cancel()
	asked := c.clock.Now()
	var found providers.Snapshot
	err := clusters.CatchPanic(func() (err error) {
		found, err = c.provider.Snapshot(ctx)
		return err
	})
	var queues []ledger.QueueReport
	if err == nil {
		queues, err = clusters.QueueReports(found.Queues)
	}
	h := c.res.GetProvider().GetHealth()
	h.Took = wire.DurationMessage(c.clock.Now().Sub(asked))
	if err != nil {
		h.Message, h.Failures, h.FailureTime = providers.Said(clusters.DescribeTimeout(ctx, err).Error()), 1, wire.TimeMessage(asked)
		return
	}
	h.Server, h.SnapshotTime, h.Message = found.Server, wire.TimeMessage(asked), found.Untrusted
	h.Queues = int32(len(queues)) //nolint:gosec // far from 2^31
	if found.Untrusted == "" {
		h.State, h.Message = bursarv1.ProviderHealth_STATE_KNOWN, found.Doubts
	}
	p := c.res.GetProvider()
	for i := range queues {
		c.res.Queues = append(c.res.Queues, reportedQueue(p, &queues[i], asked))
	}
	if hidden := clusters.UnaddressableQueues(&found); hidden != nil {
		for i := range hidden.Listed {
			c.res.Queues = append(c.res.Queues, wire.UnaddressableMessage(p.GetKind(), p.GetCluster(), &hidden.Listed[i], asked))
		}
	}
}

// reportedQueue returns a queue as its cluster reports it, without the ledger's data.
func reportedQueue(p *bursarv1.Provider, r *ledger.QueueReport, asked ledger.Instant) *bursarv1.Queue {
	m := wire.ReportMessage(r)
	m.Kind, m.Cluster, m.SnapshotTime = p.GetKind(), p.GetCluster(), wire.TimeMessage(asked)
	m.Account = &bursarv1.Account{
		Name: &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_QUEUE, Labels: addressLabels(resource.Address{
			Kind: p.GetKind(), Cluster: p.GetCluster(), Path: r.Path, Partition: r.Partition,
		})},
		Limit: wire.VectorMessage(r.Limit),
	}
	return m
}

// addressLabels returns the labels that name a queue's account.
func addressLabels(a resource.Address) map[string]string {
	return map[string]string{"kind": a.Kind, "cluster": a.Cluster, "path": a.Path, "partition": a.Partition}
}

// servers asks every server of the cluster for its role and version.
func (c *providerCheck) servers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.pace.Timeout)
	defer cancel()
	var list []providers.Server
	if err := clusters.CatchPanic(func() error {
		list = c.provider.Servers(ctx)
		return nil
	}); err != nil {
		c.res.Provider.Health.Message = providers.Said(err.Error())
		return
	}
	for i := range list {
		server := &list[i]
		m := &bursarv1.ServerCheck{Address: server.Address, Role: server.Role, Version: server.Version, Took: wire.DurationMessage(server.Took)}
		if server.Err != nil {
			m.Error = providers.Said(server.Err.Error())
		}
		c.res.Servers = append(c.res.Servers, m)
	}
}
