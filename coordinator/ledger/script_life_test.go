package ledger_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// id takes the short name of an allocation. Unknown ones are ids that nobody ever gave out.
func (s *script) id(a *arguments) ledger.ID {
	return s.idOf(a.word())
}

func (s *script) idOf(name string) ledger.ID {
	if id, known := s.ids[name]; known {
		return id
	}
	return ledger.ID(1)
}

func (s *script) ask(a *arguments) ledger.AllocateCommand {
	c := ledger.AllocateCommand{Actor: s.actor(a)}
	c.RequestID, _ = a.option("request")
	c.Wait = a.durationOf("wait") // no part of the body: every call has its own
	c.RequestHash = a.body()
	c.ReservationTTL = a.durationOf("ttl")
	c.Priority = int32(a.integer("priority", 0))
	c.Async = a.flag("async")
	c.Name, _ = a.option("name")
	if program, set := a.option("launch"); set { // its row has the same text
		c.Launch = &ledger.LaunchRequest{Account: "alice", Program: program, Watched: a.flag("watched"), Retries: int32(a.integer("retries", 0)), Spec: []byte(program)}
	}
	c.Wishes = a.wishes()
	c.Resource = resource.NewResource(a.vector(), a.parts("external")...)
	c.Labels = a.labels()
	return c
}

func (s *script) allocate(a *arguments) string {
	before := s.ledger.Revision()
	result, err := s.ledger.Allocate(s.now, s.ask(a))
	switch {
	case err != nil:
		return problem(err)
	case result.Ended:
		return s.name(result.Allocation.ID) + " has ended\n"
	case s.ledger.Revision() == before:
		return fmt.Sprintf("%s is %s already\n", s.name(result.Allocation.ID), result.Allocation.State)
	default:
		return ""
	}
}

func (s *script) confirm(a *arguments) string {
	c := ledger.ConfirmCommand{
		Actor: s.actor(a), ID: s.id(a), Address: a.text("address"), Lease: a.durationOf("lease"),
		Process: ledger.Process{PID: int32(a.integer("pid", 0)), StartTime: uint64(a.integer("started", 0)), Launched: a.flag("launched")},
	}
	c.HostID, _ = a.option("host")
	c.Phase, c.PhaseReason = a.phase(), a.text("why")
	c.ApplicationIDs, _ = a.values("applications")
	if entitled := resource.NewResource(a.vector(), a.parts("external")...); !entitled.Vector.IsUnset() || len(entitled.External) > 0 {
		c.Entitled = &entitled
	}
	before := s.ledger.Revision()
	result, err := s.ledger.Confirm(s.now, c)
	if err != nil {
		return problem(err)
	}
	if agent := s.agents[result.HostID]; agent != nil && c.Process.PID != 0 {
		agent.engines[c.ID] = result
	}
	if s.ledger.Revision() == before {
		return s.name(c.ID) + " is active already\n"
	}
	return ""
}

// began is the report of the host's agent that the engine of a launch has begun.
func (s *script) began(a *arguments) string {
	id := s.id(a)
	hostID, set := a.option("host")
	if !set {
		hostID = s.last[id].HostID
	}
	before := s.ledger.Revision()
	_, err := s.ledger.BeginLaunch(s.now, ledger.LaunchBegun{HostID: hostID, ID: id, LogDirectory: "/log/" + s.name(id)})
	if err == nil && s.ledger.Revision() == before {
		return "nothing new\n"
	}
	return problem(err)
}

// failed is a report of the host's agent that a try has begun nothing. unsent: the coordinator says
// that the agent did not take its order. again: the agent was started again, and could not carry an
// order out.
func (s *script) failed(a *arguments) string {
	id := s.id(a)
	last := s.last[id]
	c := ledger.LaunchFailed{HostID: last.HostID, ID: id, GrantRevision: last.GrantRevision, Reason: a.text("reason")}
	if hostID, set := a.option("host"); set {
		c.HostID = hostID
	}
	if a.flag("stale") {
		c.GrantRevision--
	}
	unsent, again := a.flag("unsent"), a.flag("again")
	if agent := s.agents[c.HostID]; agent != nil && !unsent {
		c.Incarnation = agent.register.Incarnation
		if !again {
			c.Process = last.Process
		}
	}
	if result, err := s.ledger.FailLaunch(s.now, c); err != nil {
		return problem(err)
	} else if result.Revision == last.Revision {
		return "nothing new\n"
	}
	if agent := s.agents[c.HostID]; agent != nil {
		delete(agent.engines, id)
	}
	return ""
}

func (s *script) release(a *arguments) string {
	c := ledger.ReleaseCommand{Actor: s.actor(a), ID: s.id(a), Reason: a.text("reason"), Exit: exit(a)}
	c.HostID, _ = a.option("host")
	if c.ProcessEnded, c.Force = a.flag("ended"), a.flag("force"); c.ProcessEnded && c.HostID == "" {
		c.HostID = s.last[c.ID].HostID
	}
	result, err := s.ledger.Release(s.now, c)
	if row := s.lost(c.ID, err); row != nil {
		_, err = s.ledger.ReleaseLost(s.now, c, row)
	}
	if agent := s.agents[result.HostID]; err == nil && agent != nil && !result.State.Live() {
		delete(agent.engines, c.ID)
	}
	return problem(err)
}

func exit(a *arguments) *ledger.ExitStatus {
	code, signal := int32(a.integer("exit", -1)), int32(a.integer("signal", 0))
	switch {
	case signal != 0:
		return &ledger.ExitStatus{Signal: signal, OutOfMemory: a.flag("oom")}
	case code < 0:
		return nil
	}
	return &ledger.ExitStatus{Code: &code}
}

func (s *script) cancel(a *arguments) string {
	c := ledger.CancelCommand{Actor: s.actor(a), Reason: a.text("reason")}
	if request, set := a.option("request"); set {
		c.RequestID = request
	} else {
		c.ID = s.id(a)
	}
	_, err := s.ledger.Cancel(s.now, c)
	return problem(err)
}

func (s *script) amend(a *arguments) string {
	c := ledger.AmendCommand{Actor: s.actor(a), ID: s.id(a), Wait: a.durationOf("wait")}
	if _, set := a.option("priority"); set {
		c.Priority = new(int32(a.integer("priority", 0)))
	}
	if less := resource.NewResource(a.vector(), a.parts("external")...); !less.Vector.IsUnset() || len(less.External) > 0 {
		c.Resource = &less
	}
	_, err := s.ledger.Amend(s.now, c)
	return problem(err)
}

func (s *script) renew(a *arguments) string {
	c := ledger.RenewCommand{Actor: s.actor(a), ID: s.id(a), TTL: a.durationOf("ttl")}
	_, err := s.ledger.Renew(s.now, c)
	if row := s.lost(c.ID, err); row != nil {
		_, err = s.ledger.RenewLost(s.now, c, row)
	}
	return problem(err)
}

// lost is the row of an allocation that a command did not find, if its host has lost its lease.
func (s *script) lost(id ledger.ID, err error) *ledger.Allocation {
	_, unknown := errors.AsType[*ledger.NotFoundError](err)
	if row := s.mirror.rows[id]; unknown && row.LostLease() {
		return &row
	}
	return nil
}

func (s *script) resize(a *arguments) string {
	_, err := s.ledger.Resize(s.now, ledger.ResizeCommand{Actor: s.actor(a), ID: s.id(a), Entitled: resource.NewResource(a.vector(), a.parts("external")...)})
	return problem(err)
}

func (s *script) stop(a *arguments) string {
	c := ledger.StopCommand{Actor: s.actor(a), ID: s.id(a), Reason: a.text("reason")}
	if text, set := a.option("grace"); set {
		grace := a.duration(text)
		c.Grace = &grace
	}
	_, err := s.ledger.Stop(s.now, c)
	return problem(err)
}

func (s *script) detach(a *arguments) string {
	s.ledger.Detach(s.now, s.id(a))
	return ""
}

// explain takes an allocation's name, or what allocate takes.
func (s *script) explain(a *arguments) string {
	var x ledger.Explanation
	var err error
	if len(a.list) > 0 && len(a.list[0].Vals) == 0 {
		x, err = s.ledger.ExplainID(s.now, s.id(a), identity.Actor{})
	} else {
		x, err = s.ledger.Explain(s.now, s.ask(a))
	}
	if err != nil {
		return problem(err)
	}
	var b strings.Builder
	b.WriteString([...]string{"", "fits", "waits", "never fits", "decided"}[x.Verdict])
	if x.Allocation != nil && x.Verdict == ledger.Decided {
		fmt.Fprintf(&b, ": %s", x.Allocation.State)
	}
	if x.HostID != "" {
		fmt.Fprintf(&b, " on %s", x.HostID)
	}
	if x.Place >= 0 {
		fmt.Fprintf(&b, ", %d before it", x.Place)
	}
	if x.BlockedBy != nil {
		fmt.Fprintf(&b, ", blocked by %s", x.BlockedBy)
	}
	b.WriteByte('\n')
	b.WriteString(shortfalls(x.Shortfalls, x.Filters))
	for i := range x.Runners {
		r := &x.Runners[i]
		fmt.Fprintf(&b, "  in the way in %s, by %s, %d of %d looked at:", r.Account, r.Dimension, r.Looked, r.Of)
		for _, runner := range r.Largest {
			fmt.Fprintf(&b, " %s of %s (%s)", s.name(runner.ID), runner.User, runner.Size)
		}
		b.WriteByte('\n')
	}
	for i := range x.Accounts {
		fmt.Fprintf(&b, "  touches %s: %s\n", x.Accounts[i].Name, s.numbers(&x.Accounts[i]))
	}
	return b.String()
}

// quota puts one rule, over the API.
func (s *script) quota(a *arguments) string {
	set := ledger.QuotaSet{Force: a.flag("force")}
	set.Quotas = []ledger.Quota{readQuota(a)}
	_, err := s.ledger.ApplyQuotas(s.now, set)
	return problem(err)
}

// quotaSet replaces all rules of a source by those in its input.
func (s *script) quotaSet(a *arguments) string {
	source, _ := a.option("source")
	quotas := readQuotas(a)
	if err := s.ledger.SetQuotas(s.now, source, quotas); err != nil {
		return problem(err)
	}
	if strings.HasPrefix(source, ledger.SourceFilePrefix) {
		for i := range quotas {
			quotas[i].Source = source
		}
		s.mirror.files[source] = quotas
	}
	return ""
}

// applyQuotas puts the rules of its input together, and says what became of them.
func (s *script) applyQuotas(a *arguments) string {
	set := ledger.QuotaSet{Prune: a.flag("prune"), DryRun: a.flag("dry"), Force: a.flag("force"), Quotas: readQuotas(a)}
	set.Source, _ = a.option("source")
	changes, err := s.ledger.ApplyQuotas(s.now, set)
	if err != nil {
		return problem(err)
	}
	var b strings.Builder
	for _, part := range []struct {
		what   string
		quotas []ledger.Quota
	}{{"added", changes.Added}, {"changed", changes.Changed}, {"deleted", changes.Deleted}} {
		for _, q := range part.quotas {
			fmt.Fprintf(&b, "%s: %s %s of %s\n", part.what, q.Selector, limits(&q), q.Source)
		}
	}
	fmt.Fprintf(&b, "%d unchanged\n", changes.Unchanged)
	return b.String()
}

func readQuotas(a *arguments) []ledger.Quota {
	var quotas []ledger.Quota
	a.lines(func(command string, line *arguments) {
		if command != "quota" {
			a.t.Fatalf("%s: want quota, not %s", a.pos, command)
		}
		quotas = append(quotas, readQuota(line))
	})
	return quotas
}

// limits describes what a rule limits, and what it guarantees in queues.
func limits(q *ledger.Quota) string {
	text := resource.NewResource(q.Limit, q.External...).String()
	if len(q.GuaranteedExternal) > 0 {
		text += ", guaranteed " + resource.Resource{External: q.GuaranteedExternal}.String()
	}
	return text
}

func readQuota(a *arguments) ledger.Quota {
	q := ledger.Quota{Limit: a.vector(), Guaranteed: a.vectorOf("guaranteed"), Weight: int32(a.integer("weight", 0))}
	q.External, q.GuaranteedExternal = resource.NewLimits(a.parts("external")...), resource.NewLimits(a.parts("guaranteed-external")...)
	n := resource.Normalization{Minimum: a.vectorOf("minimum"), Increment: a.vectorOf("increment"), Maximum: a.vectorOf("maximum")}
	if !n.Minimum.IsUnset() || !n.Increment.IsUnset() || !n.Maximum.IsUnset() {
		q.Normalization = &n
	}
	q.Selector = a.selector()
	return q
}

// rules lists the rules, and why some are not in force.
func (s *script) rules(*arguments) string {
	var b strings.Builder
	for _, q := range s.ledger.Quotas() {
		fmt.Fprintf(&b, "%s %s of %s\n", q.Selector, limits(&q), q.Source)
	}
	for _, h := range s.ledger.HiddenQuotas() {
		fmt.Fprintf(&b, "%s\n", &h)
	}
	return b.String()
}

func (s *script) unquota(a *arguments) string {
	return problem(s.ledger.DeleteQuota(s.now, a.selector()))
}
