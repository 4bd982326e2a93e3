package access

import (
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// Rule lists the roles that may call a procedure, and the roles whose calls are audited.
type Rule struct {
	// Open means that the call needs no identity.
	Open bool
	// OpenHere means that the call needs no identity if it comes from this machine.
	OpenHere bool
	// Roles are the roles that may make the call.
	Roles []identity.Role
	// AsAnyone lists the roles of Roles that may use the call on the allocations of every user,
	// even of users as whom they may not act.
	AsAnyone []identity.Role
	// Recorded are the roles whose calls go into the audit log even if they are allowed.
	Recorded []identity.Role
	// Vouched lets an agent make the call in the name of a caller of its host.
	Vouched bool
}

// Allows reports whether a role may make the call.
func (r Rule) Allows(role identity.Role) bool { return slices.Contains(r.Roles, role) }

// Records reports whether a call of this role goes into the audit log even if it is allowed.
func (r Rule) Records(role identity.Role) bool { return slices.Contains(r.Recorded, role) }

// Who lists the roles, for messages.
func (r Rule) Who() string {
	names := make([]string, len(r.Roles))
	for i, role := range r.Roles {
		names[i] = string(role)
	}
	return strings.Join(names, ", ")
}

// RuleOf returns the rule of a path: a procedure such as /bursar.v1.HostService/Drain, or a page
// such as /metrics. Only admins may call a procedure of Bursar that is not in the table. All roles
// may read any other page.
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

// procedures returns the complete table of permissions.
func procedures() map[string]Rule { return table }

const (
	reader      = identity.Reader
	submitter   = identity.Submitter
	agent       = identity.Agent
	operator    = identity.Operator
	admin       = identity.Admin
	coordinator = identity.Coordinator
)

// Agents read only the data of their host: List, Get, Watch and Explain of allocations filter by
// the host of the agent.
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

	// No call through an agent: an agent vouches for no caller that starts engines on other hosts.
	bursarv1connect.EngineServiceStartProcedure: {Roles: []identity.Role{submitter, operator, admin}, Recorded: []identity.Role{submitter, operator, admin}},
	bursarv1connect.EngineServiceWaitProcedure:  {Roles: readers(), Vouched: true},
	// Like Stop. An agent sends signals to the engines of its own host without a coordinator.
	bursarv1connect.EngineServiceSignalProcedure: intervenes(submitter, operator, admin),
	// The roles that may see output (MaySeeOutput). An agent reads the output of its host itself.
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

// writes is the rule of calls on a caller's own allocations. An agent makes them only in the name
// of the callers of its host.
func writes() Rule {
	return Rule{Roles: []identity.Role{submitter, operator, admin}, Vouched: true}
}

// intervenes is the rule of calls that an operator may also make on the allocations of other users.
// The calls of the recorded roles are audited.
func intervenes(recorded ...identity.Role) Rule {
	rule := writes()
	rule.AsAnyone, rule.Recorded = []identity.Role{operator}, recorded
	return rule
}

// administers is the rule of calls that only these roles may make; all are audited.
func administers(roles ...identity.Role) Rule { return Rule{Roles: roles, Recorded: roles} }
