package coordinator

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

func defaultTimeouts() auth.Timeouts {
	return auth.Timeouts{Header: 10 * time.Second, Body: 30 * time.Second, Write: 30 * time.Second, Idle: 2 * time.Minute, Recheck: commit.KeepAlive}
}

func newLimits(l *Limits, registry prometheus.Registerer, log *slog.Logger) *auth.Limits {
	return auth.NewLimits(auth.LimitsOptions{
		Waiting: l.CallerWaiting, MessageBytes: int64(l.MessageBytes), SyncBytes: int64(l.SyncBytes), ProbeTime: probeTime,
		Page: pageBound, Code: rpcError, Registry: registry, Log: log,
	})
}

// pageBound returns how large the page of a List request may become, in bytes; 0 if the request is
// not paged. The page size of a quota list counts accounts, and its rules come before them: only
// wire.PageMost bounds such a page.
func pageBound(request any) int {
	asked, paged := request.(interface{ GetPageSize() int32 })
	if !paged {
		return 0
	}
	most := wire.PageMost
	if _, quotas := request.(*bursarv1.QuotaServiceListRequest); !quotas {
		most = min(most, wire.PageSize(asked.GetPageSize())*convert.MaxAllocationSize)
	}
	return most
}

func newAuditLog(path string, log *slog.Logger, registry prometheus.Registerer) *auth.AuditLog {
	return auth.NewAuditLog(auth.AuditOptions{Path: path, Log: log, Registry: registry, Now: time.Now, Suspicious: isEpochError})
}

// isEpochError reports whether an error may end the leadership. The audit log records its caller.
func isEpochError(err error) bool {
	_, claim := errors.AsType[*core.EpochError](err)
	return claim
}

// openAuditLog opens the audit log. The error is a *ConfigError or a *TransientConfigError.
func openAuditLog(audit *auth.AuditLog, path string) error {
	if err := audit.Open(); err != nil {
		return transient(&ConfigError{"auditLog", path, "a file that can be written (" + err.Error() + ")"}, err)
	}
	return nil
}

// checkOwnHost refuses a call through one host's agent for a live allocation of another host.
// s.getEnded does the same check for ended allocations.
func checkOwnHost(l *ledger.Ledger, actor identity.Actor, id ledger.ID) error {
	if actor.Host == "" {
		return nil
	}
	a, live := l.Get(id)
	if !live {
		return nil
	}
	return checkHostOf(actor, &a)
}

func checkHostOf(actor identity.Actor, a *ledger.Allocation) error {
	return auth.OnOwnHost(actor, a.ID, a.HostID)
}

// withAdvice adds advice to the ledger's refusal of an actor. The ledger knows the actor's rights,
// but not the file that grants them.
func withAdvice(err error) error {
	if denied, ok := errors.AsType[*ledger.DeniedError](err); !ok || denied.Instead != "" {
		return err
	}
	return fmt.Errorf("%w: want a caller that may (users and priority in the coordinator's file of identities, trustedUsers at an agent), or an operator", err)
}
