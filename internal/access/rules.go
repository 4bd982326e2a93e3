package access

import (
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// Rule says who may call a procedure, and what of it is worth recording.
type Rule struct {
	// Open needs no identity at all.
	Open bool
	// OpenHere needs none from this machine.
	OpenHere bool
	// Roles may call it.
	Roles []identity.Role
	// AsAnyone are those of Roles that act on what is anybody's with it, whatever users they may
	// act as.
	AsAnyone []identity.Role
	// Recorded are the roles whose calls go into the audit log even if they are allowed.
	Recorded []identity.Role
	// Vouched lets an agent make it in the name of a caller of its host.
	Vouched bool
}

// Allows reports whether a role may make the call.
func (r Rule) Allows(role identity.Role) bool { return slices.Contains(r.Roles, role) }

// Records reports whether a call of this role goes into the audit log even if it is allowed.
func (r Rule) Records(role identity.Role) bool { return slices.Contains(r.Recorded, role) }

// Who lists the roles for a message.
func (r Rule) Who() string {
	names := make([]string, len(r.Roles))
	for i, role := range r.Roles {
		names[i] = string(role)
	}
	return strings.Join(names, ", ")
}

// RuleOf returns the rule of a path: a procedure such as /bursar.v1.HostService/Drain, or a page
// such as /metrics. A procedure of ours that is not in the table is for admins only. Any other
// page is for those who may read everything.
func RuleOf(path string) Rule {
	if rule, found := procedures()[path]; found {
		return rule
	}
	switch {
	case path == "/healthz", path == "/readyz", strings.HasPrefix(path, "/grpc.health.v1.Health/"):
		return Rule{Open: true}
	case path == "/metrics":
		return Rule{OpenHere: true, Roles: readers()}
	case strings.HasPrefix(path, "/bursar."):
		return administers(admin)
	default:
		return Rule{Roles: readers()}
	}
}

func readers() []identity.Role { return identity.Roles() }

// procedures is the table of permissions. It has everything that a role may do.
func procedures() map[string]Rule { return table }

const (
	reader      = identity.Reader
	submitter   = identity.Submitter
	agent       = identity.Agent
	operator    = identity.Operator
	admin       = identity.Admin
	coordinator = identity.Coordinator
)

// Agents read what concerns their host, not the whole cluster's allocations; List, Get, Watch and
// Explain of allocations are cut down to their host.
var table = map[string]Rule{
	bursarv1connect.AllocationServiceAllocateProcedure: writes(),
	bursarv1connect.AllocationServiceConfirmProcedure:  writes(),
	bursarv1connect.AllocationServiceRenewProcedure:    writes(),
	bursarv1connect.AllocationServiceResizeProcedure:   writes(),
	bursarv1connect.AllocationServiceAmendProcedure:    intervenes(operator),
	bursarv1connect.AllocationServiceReleaseProcedure:  intervenes(operator),
	bursarv1connect.AllocationServiceCancelProcedure:   intervenes(operator),
	bursarv1connect.AllocationServiceStopProcedure:     intervenes(submitter, agent, operator, admin),
	bursarv1connect.AllocationServiceGetProcedure:      {Roles: readers(), Vouched: true},
	bursarv1connect.AllocationServiceListProcedure:     {Roles: readers(), Vouched: true},
	bursarv1connect.AllocationServiceWatchProcedure:    {Roles: readers(), Vouched: true},
	bursarv1connect.AllocationServiceAwaitProcedure:    {Roles: []identity.Role{agent, admin}},
	bursarv1connect.AllocationServiceLeaveProcedure:    {Roles: []identity.Role{agent, admin}},
	bursarv1connect.AllocationServiceExplainProcedure:  {Roles: readers(), Vouched: true, AsAnyone: []identity.Role{reader, operator}},

	bursarv1connect.HostServiceRegisterProcedure:   {Roles: []identity.Role{agent, admin}},
	bursarv1connect.HostServiceSyncProcedure:       {Roles: []identity.Role{agent, admin}},
	bursarv1connect.HostServiceAttachProcedure:     {Roles: []identity.Role{agent, admin}},
	bursarv1connect.HostServiceAnswerProcedure:     {Roles: []identity.Role{agent, admin}},
	bursarv1connect.HostServiceSendOutputProcedure: {Roles: []identity.Role{agent, admin}},
	bursarv1connect.HostServiceDeregisterProcedure: {Roles: []identity.Role{agent, operator, admin}, Recorded: []identity.Role{agent, operator, admin}},
	bursarv1connect.HostServiceCordonProcedure:     administers(operator, admin),
	bursarv1connect.HostServiceUncordonProcedure:   administers(operator, admin),
	bursarv1connect.HostServiceDrainProcedure:      administers(operator, admin),
	bursarv1connect.HostServiceAcceptProcedure:     administers(operator, admin),
	bursarv1connect.HostServiceGetProcedure:        {Roles: readers()},
	bursarv1connect.HostServiceListProcedure:       {Roles: readers()},

	// No call through an agent: a host's agent vouches for nobody who starts engines elsewhere.
	bursarv1connect.EngineServiceStartProcedure: {Roles: []identity.Role{submitter, operator, admin}, Recorded: []identity.Role{submitter, operator, admin}},
	bursarv1connect.EngineServiceWaitProcedure:  {Roles: readers(), Vouched: true},
	// As Stop. An agent sends its own host's engines signals without a coordinator.
	bursarv1connect.EngineServiceSignalProcedure: intervenes(submitter, operator, admin),
	// The roles that may see output at all (MaySeeOutput). An agent reads that of its host itself.
	bursarv1connect.EngineServiceLogsProcedure:      {Roles: []identity.Role{submitter, operator, admin}},
	bursarv1connect.EngineServiceOrderLogsProcedure: {Roles: []identity.Role{submitter, operator, admin}},

	bursarv1connect.QuotaServicePutProcedure:    administers(admin),
	bursarv1connect.QuotaServiceApplyProcedure:  administers(admin),
	bursarv1connect.QuotaServiceDeleteProcedure: administers(admin),
	bursarv1connect.QuotaServiceGetProcedure:    {Roles: readers()},
	bursarv1connect.QuotaServiceListProcedure:   {Roles: readers()},

	bursarv1connect.QueueServicePutProviderProcedure:    administers(admin),
	bursarv1connect.QueueServiceDeleteProviderProcedure: administers(admin),
	bursarv1connect.QueueServiceCheckProviderProcedure:  administers(admin),
	bursarv1connect.QueueServiceListProvidersProcedure:  {Roles: readers()},
	bursarv1connect.QueueServiceGetProcedure:            {Roles: readers()},
	bursarv1connect.QueueServiceListProcedure:           {Roles: readers()},

	bursarv1connect.ClusterServiceStatusProcedure: {Roles: readers()},
	bursarv1connect.ClusterServiceAuditProcedure:  {Roles: []identity.Role{reader, submitter, operator, admin, coordinator}},
	bursarv1connect.ClusterServiceWatchProcedure:  {Roles: []identity.Role{reader, submitter, operator, admin, coordinator}},
}

// writes is what callers do with their own allocations; an agent does it in the name of its host's
// callers, and not in its own.
func writes() Rule {
	return Rule{Roles: []identity.Role{submitter, operator, admin}, Vouched: true}
}

// intervenes is what an operator also does with allocations of others. recorded are the roles
// whose calls are recorded.
func intervenes(recorded ...identity.Role) Rule {
	rule := writes()
	rule.AsAnyone, rule.Recorded = []identity.Role{operator}, recorded
	return rule
}

// administers is what these roles do, always recorded.
func administers(roles ...identity.Role) Rule { return Rule{Roles: roles, Recorded: roles} }
