package coordinator

import (
	"context"
	"errors"
	"maps"

	"github.com/bursar/bursar/coordinator/clusters"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers"
)

// PutProvider adds a provider, or replaces the one of its cluster. The coordinator reads the
// cluster at once.
func (s *queueService) PutProvider(ctx context.Context, req *bursarv1.PutProviderRequest) (*bursarv1.PutProviderResponse, error) {
	record := providerRecord(req.GetProvider())
	record.Source = ledger.SourceAPI
	if err := s.checkSettings(&record); err != nil {
		return nil, err
	}
	if err := s.loop.ChangeProvider(ctx, record.ClusterName, func(l *ledger.Ledger, now ledger.Instant) error {
		return l.PutProvider(now, record)
	}); err != nil {
		return nil, err
	}
	return &bursarv1.PutProviderResponse{Provider: s.providerMessage(&record, nil)}, nil
}

// checkSettings checks the settings of a provider that came over the API. It asks no server.
func (s *queueService) checkSettings(record *ledger.ProviderRecord) error {
	kind, err := s.pollers.Kinds.Find(record.Kind)
	if err != nil {
		return unknownKind(err)
	}
	if _, only := kind.(providers.FileOnly); only {
		return wire.FieldError("provider.kind", record.Kind, providers.WantFile)
	}
	if !providers.ValidCluster(record.Cluster) {
		return wire.FieldError("provider.cluster", record.Cluster, providers.WantCluster)
	}
	if err := kind.Check(record.Settings); err != nil {
		return wrongSetting(err)
	}
	if _, err := providers.PaceFrom(record.Settings); err != nil {
		return wrongSetting(err)
	}
	return wrongSetting(s.pollers.Credentials.Check(kind, record.Settings))
}

// unknownKind returns a field error for a kind without a provider in this program.
func unknownKind(err error) error {
	if wrong, ok := errors.AsType[*providers.KindError](err); ok {
		return wire.FieldError("provider.kind", wrong.Kind, wrong.Want())
	}
	return err
}

// wrongSetting returns a field error that names the wrong setting.
func wrongSetting(err error) error {
	if wrong, ok := errors.AsType[*providers.SettingError](err); ok {
		return wire.FieldError("provider.settings["+wrong.Setting+"]", wrong.Value, wrong.Want)
	}
	return err
}

// DeleteProvider ends the reading of a cluster.
func (s *queueService) DeleteProvider(ctx context.Context, req *bursarv1.DeleteProviderRequest) (*bursarv1.DeleteProviderResponse, error) {
	name := ledger.ClusterName{Kind: req.GetKind(), Cluster: req.GetCluster()}
	err := s.loop.ChangeProvider(ctx, name, func(l *ledger.Ledger, now ledger.Instant) error { return l.DeleteProvider(now, name) })
	if err != nil {
		return nil, err
	}
	return &bursarv1.DeleteProviderResponse{}, nil
}

// ListProviders returns all providers with their health.
func (s *queueService) ListProviders(ctx context.Context, _ *bursarv1.ListProvidersRequest) (*bursarv1.ListProvidersResponse, error) {
	var records []ledger.ProviderRecord
	clusters := make(map[ledger.ClusterName]ledger.ClusterInfo)
	if err := s.loop.Do(ctx, func(l *ledger.Ledger, _ ledger.Instant) {
		records = l.Providers()
		for _, c := range l.Clusters() {
			clusters[c.ClusterName] = c
		}
	}); err != nil {
		return nil, err
	}
	res := &bursarv1.ListProvidersResponse{}
	for i := range records {
		info := clusters[records[i].ClusterName]
		res.Providers = append(res.Providers, s.providerMessage(&records[i], &info))
	}
	return res, nil
}

// providerMessage returns a provider as the API shows it. info is nil for a provider that has just
// been put.
func (s *queueService) providerMessage(record *ledger.ProviderRecord, info *ledger.ClusterInfo) *bursarv1.Provider {
	m := &bursarv1.Provider{
		Kind: record.Kind, Cluster: record.Cluster, Default: record.Default, Settings: maps.Clone(record.Settings), Source: record.Source,
		Health: &bursarv1.ProviderHealth{State: bursarv1.ProviderHealth_STATE_UNKNOWN, Message: "not read yet"},
	}
	if info != nil {
		m.Health = healthMessage(s.pollers.HealthOf(record.ClusterName), info)
	}
	return m
}

// healthMessage combines the poller's health of a cluster with the ledger's view of it.
func healthMessage(h clusters.Health, info *ledger.ClusterInfo) *bursarv1.ProviderHealth {
	m := &bursarv1.ProviderHealth{
		State: bursarv1.ProviderHealth_STATE_UNKNOWN, Message: info.Unavailable, Server: h.Server,
		SnapshotTime: wire.TimeMessage(info.Asked), FailureTime: wire.TimeMessage(h.FailedAt), Failures: h.Failures,
		Took: wire.DurationMessage(h.Took), Interval: wire.DurationMessage(h.Interval),
		Queues: int32(info.Queues), Applications: int32(h.Applications), //nolint:gosec // far from 2^31
	}
	if info.Known {
		m.State = bursarv1.ProviderHealth_STATE_KNOWN
	}
	if m.Message == "" {
		m.Message = h.Message
	}
	return m
}
