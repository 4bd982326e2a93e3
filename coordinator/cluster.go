package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/forward"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// clusterService serves bursar.v1.ClusterService. Watch is in watch.go.
type clusterService struct {
	loop    *commit.Loop
	version string
	started ledger.Instant
	self    func() string // its own URL
	peers   *forward.Peers
	warn    func() []string // current warnings
	// audited returns an audit. Callers share an audit that is under way.
	audited func() (commit.AuditResult, error)
}

// Status returns the state of the cluster as this coordinator knows it.
func (s *clusterService) Status(ctx context.Context, req *bursarv1.StatusRequest) (*bursarv1.StatusResponse, error) {
	v, err := s.loop.View(ctx)
	if errors.Is(err, core.ErrNotLeading) && req.GetAllowStale() {
		return s.standby(), nil
	}
	if err != nil {
		return nil, err
	}
	c, now := v.Counts, s.loop.Clock.Now()
	return &bursarv1.StatusResponse{
		Version: s.version, StoreId: v.Meta.StoreID, Epoch: v.Meta.Epoch, Revision: v.Revision,
		Leader: addressOf(s.self()), LeaderUrl: s.self(), Url: s.self(), IsLeader: true,
		StartTime: wire.TimeMessage(s.started), Uptime: wire.DurationMessage(now.Sub(s.started)),
		Waiting: int64(c.Waiting), Reserved: int64(c.Reserved), Active: int64(c.Active),
		HostsHealthy: int64(c.HostsHealthy), HostsSuspect: int64(c.HostsSuspect),
		HostsLost: int64(c.HostsLost), HostsReturning: int64(c.HostsReturning),
		QuotaRules: int64(c.QuotaRules), QuotaAccounts: int64(c.QuotaAccounts),
		Warnings:  slices.Concat(s.warn(), enginesWarnings(&c), fullWarnings(auth.ActorOf(ctx), v.Full), sharedWarnings(auth.ActorOf(ctx), v.Shared), v.Skew.Warning(now), v.Setback.Warning()),
		ClockSkew: wire.DurationMessage(v.Skew.Left(now)),
		History:   historyMessage(s.loop.HistorySize()), LastLeadership: endedMessage(s.loop.LastEnded()),
	}, nil
}

func endedMessage(ended *commit.EndedLeadership) *bursarv1.LeadershipEnd {
	if ended == nil {
		return nil
	}
	return &bursarv1.LeadershipEnd{Epoch: ended.Epoch, EndTime: wire.TimeMessage(ended.Time), Reason: ended.Reason}
}

func historyMessage(size *commit.HistorySize) *bursarv1.HistorySize {
	if size == nil {
		return nil
	}
	return &bursarv1.HistorySize{Allocations: size.Rows, Bytes: size.Bytes}
}

// enginesWarnings warns of engines that use more than their entitlement, and of hosts that take no
// more engines.
func enginesWarnings(c *ledger.Counts) (list []string) {
	if c.OverUsers > 0 {
		text := fmt.Sprintf("engines that use more than they are entitled to: %d of %d", c.OverUsers, c.Active)
		if n := c.OverUse[ledger.OverUseKind{Dimension: resource.Memory, Policy: ledger.PolicyKill}]; n > 0 {
			text += fmt.Sprintf("; that are stopped for it if it goes on: %d", n)
		}
		list = append(list, text)
	}
	if c.HostsRefusing > 0 {
		list = append(list, fmt.Sprintf("hosts whose agents take no engines: %d of %d", c.HostsRefusing, c.HostsHealthy))
	}
	return list
}

// sharedWarnings warns of hosts that are on one machine. Like fullWarnings it tells agents nothing.
func sharedWarnings(to identity.Actor, shared [][]string) (list []string) {
	if to.Host != "" {
		return nil
	}
	for _, hosts := range shared {
		list = append(list, "hosts "+strings.Join(commit.AtMost(hosts, mostOnOneMachine, "bursar hosts"), ", ")+" are on one machine: "+onOneMachine)
	}
	return list
}

// mostOnOneMachine bounds how many hosts of one machine a warning names.
const mostOnOneMachine = 16

// onOneMachine describes the fault of sharedWarnings and its remedy.
const onOneMachine = "each gives away what it sees of it; want one agent, or a capacity in each agent.yaml that is its part"

// mostFull bounds the callers that fullWarnings names.
const mostFull = 20

// fullWarnings names the callers whose next requests may be refused. Only actors who may see all
// allocations get these warnings. An agent may see only the allocations of its host.
func fullWarnings(to identity.Actor, full []ledger.LiveFullError) (list []string) {
	if to.Host != "" {
		return nil
	}
	for _, f := range full {
		list = append(list, fmt.Sprintf("%s: its live allocations take %s of at most %s (limits.callerLiveBytes): beyond, new requests are refused",
			f.Caller, resource.ApproximateMemory(f.Bytes), resource.ApproximateMemory(f.Most)))
	}
	return commit.AtMost(list, mostFull, "bursar_callers_full counts them")
}

// standby returns the status of a coordinator that does not lead.
func (s *clusterService) standby() *bursarv1.StatusResponse {
	known, _ := s.peers.Leader()
	res := &bursarv1.StatusResponse{
		Version: s.version, StoreId: known.StoreID, Epoch: known.Epoch,
		Leader: addressOf(known.URL), LeaderUrl: known.URL, Url: s.self(),
		StartTime: wire.TimeMessage(s.started), Uptime: wire.DurationMessage(s.loop.Clock.Now().Sub(s.started)), Warnings: s.warn(),
		LastLeadership: endedMessage(s.loop.LastEnded()),
	}
	if known.URL == "" || known.URL == s.self() {
		res.Leader, res.LeaderUrl = "", ""
		res.Warnings = append(res.Warnings, "nobody leads at the moment")
	}
	return res
}

// addressOf returns HOST:PORT of a URL.
func addressOf(base string) string {
	if u, err := url.Parse(base); err == nil {
		return u.Host
	}
	return ""
}

// Audit recomputes every account.
func (s *clusterService) Audit(ctx context.Context, _ *bursarv1.AuditRequest) (*bursarv1.AuditResponse, error) {
	auth.Parked(ctx)
	result, err := s.audited()
	if err != nil {
		return nil, err
	}
	res := &bursarv1.AuditResponse{Allocations: int64(result.Allocations), Accounts: int64(result.Accounts), Revision: result.To}
	for _, v := range result.Violations {
		res.Violations = append(res.Violations, &bursarv1.Violation{Invariant: int32(v.Invariant), Message: v.Message}) //nolint:gosec // 1 to 9
	}
	return res, nil
}
