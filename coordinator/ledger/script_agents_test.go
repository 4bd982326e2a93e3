package ledger_test

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// scriptAgent is the simplest possible agent: it remembers the last answer and reports it again.
type scriptAgent struct {
	register ledger.RegisterCommand
	sequence uint64
	seen     uint64         // revision of the last answer
	sample   *ledger.Sample // the last one
	engines  map[ledger.ID]ledger.Allocation
	due      ledger.Instant // its next report
	silent   bool
}

// host registers a host. With "available" its agent reports at once, in full.
func (s *script) host(a *arguments) string {
	id := a.word()
	agent := s.agents[id]
	if agent == nil {
		agent = &scriptAgent{engines: make(map[ledger.ID]ledger.Allocation), register: ledger.RegisterCommand{Incarnation: 1, BootID: "boot1"}}
	}
	c := agent.register
	c.HostID = id
	c.Address = id + ":7000"
	c.Incarnation = uint64(a.integer("incarnation", int64(c.Incarnation)))
	if boot, set := a.option("boot"); set {
		c.BootID = boot
	}
	if machine, set := a.option("machine"); set {
		c.MachineID = machine
	}
	if namespace, set := a.option("pids"); set {
		c.PIDNamespace = namespace
	}
	c.Uptime = a.durationOf("uptime")
	// token: the one that it shows, if not the last it got; next: the one that it gets
	if token, set := a.option("token"); set {
		c.Token = ledger.TokenHash(token)
	}
	next, _ := a.option("next")
	c.NextToken = ledger.TokenHash(next)
	lostAnswer := a.flag("lost-answer")
	if _, set := a.option("fresh"); set {
		agent.seen = 0
	}
	c.Labels = a.labelsOf("labels")
	c.Protected = a.vectorOf("protected")
	sample := readSample(a)
	if v := a.vector(); !v.IsUnset() {
		c.Capacity = v
	}
	interval, err := s.ledger.Register(s.now, c)
	if err != nil {
		return problem(err)
	}
	if c.Incarnation > agent.register.Incarnation {
		agent.sequence = 0
	}
	if c.NextToken != "" && !lostAnswer {
		c.Token = c.NextToken
	}
	agent.register = c
	agent.due = s.now.Add(interval)
	s.agents[id] = agent
	if sample == nil {
		return fmt.Sprintf("reports every %s\n", interval)
	}
	agent.sample = sample
	if _, err := agent.report(s, true); err != nil {
		return problem(err)
	}
	return ""
}

// readSample reads what a host measured; nil if it measured nothing.
func readSample(a *arguments) *ledger.Sample {
	available, known := a.bytes("available")
	pressure, unknown, refusal := a.flag("pressure"), a.flag("unknown"), a.text("refusal")
	if !known && !pressure && !unknown && refusal == "" {
		return nil
	}
	sample := &ledger.Sample{Pressure: pressure, Refusal: refusal}
	if taken := a.durationOf("taken"); taken != 0 { // by the agent's clock, since the start
		sample.Time = start.Add(taken)
	}
	sample.MemorySafety, _ = a.bytes("safety")
	if known {
		sample.MemoryAvailable = &available
	}
	return sample
}

// sample lets a host's agent report another measurement, and nothing else.
func (s *script) sample(a *arguments) string {
	agent := s.agents[a.word()]
	sample := readSample(a)
	if sample.MemoryAvailable == nil && (sample.Pressure || sample.Refusal != "") {
		sample.MemoryAvailable = agent.sample.MemoryAvailable
	}
	agent.sample = sample
	_, err := agent.report(s, false)
	return problem(err)
}

// silence keeps an agent from reporting.
func (s *script) silence(a *arguments) string {
	s.agents[a.word()].silent = true
	return ""
}

// hear lets it report again, at once.
func (s *script) hear(a *arguments) string {
	agent := s.agents[a.word()]
	agent.silent = false
	agent.beat(s)
	return ""
}

// report sends what the agent has: its last sample again and, in full, all of its engines.
func (g *scriptAgent) report(s *script, full bool) (ledger.SyncResult, error) {
	g.sequence++
	c := ledger.SyncCommand{
		HostID: g.register.HostID, Incarnation: g.register.Incarnation, BootID: g.register.BootID,
		Sequence: g.sequence, Seen: g.seen, Sample: g.sample, Full: full, Digest: g.digest(),
	}
	if full {
		for id := range g.engines {
			grant := g.engines[id]
			c.Engines = append(c.Engines, ledger.EngineReport{
				ID: id, Measured: grant.Measured, Unreclaimable: grant.Unreclaimable, Grant: &grant,
			})
		}
		slices.SortFunc(c.Engines, func(a, b ledger.EngineReport) int { return cmp.Compare(a.ID, b.ID) })
	}
	result, err := s.ledger.Sync(s.now, c)
	if err == nil {
		g.hear(result)
		g.due = s.now.Add(result.Interval)
	}
	return result, err
}

// beat is the regular report. If the answer asks for it, the agent registers and reports in full
// at once.
func (g *scriptAgent) beat(s *script) {
	result, err := g.report(s, false)
	if err != nil || result.Action != ledger.ActionResync {
		return
	}
	if _, err := s.ledger.Register(s.now, g.register); err == nil {
		_, _ = g.report(s, true)
	}
}

// hear takes in an answer.
func (g *scriptAgent) hear(result ledger.SyncResult) {
	g.seen = result.Revision
	for _, id := range result.Gone {
		delete(g.engines, id)
	}
}

// digest is the sum of the hashes of the ids of all engines.
func (g *scriptAgent) digest() uint64 {
	sum := uint64(0)
	for id := range g.engines {
		h := fnv.New64a()
		_, _ = h.Write([]byte(id.String()))
		sum += h.Sum64()
	}
	return sum
}

// sync is one report, in every detail. The defaults are those of the agent. Its input lists what
// it reports:
//
//	engine a1 pid=100 memory=1GiB unreclaimable=512MiB   an engine and what it uses;
//	    labels=, entitled=, caller=, request=, created=  as its agent's record says
//	    unsealed                                         no seal vouches for that record
//	… over=(memory:5GiB:4GiB:kill,cpu:3:2:warn)          what of that is beyond its entitlement,
//	    since=10s                                        since a time after the start
//	ended a1 exit=0 reason=…                             a tombstone
//	veto a1 left=1GiB                                    a grant without the memory for it
//	veto a1 reason=under_memory_pressure             a grant that is refused for something else
func (s *script) sync(a *arguments) string {
	id := a.word()
	agent := s.agents[id]
	if agent == nil {
		agent = &scriptAgent{register: ledger.RegisterCommand{HostID: id, Incarnation: 1, BootID: "boot1"}}
	}
	c := ledger.SyncCommand{HostID: id, BootID: agent.register.BootID, Full: a.flag("full"), Digest: agent.digest()}
	c.Sequence = uint64(a.integer("sequence", int64(agent.sequence)+1))
	c.Incarnation = uint64(a.integer("incarnation", int64(agent.register.Incarnation)))
	c.Seen = uint64(a.integer("seen", int64(agent.seen)))
	c.Digest = uint64(a.integer("digest", int64(c.Digest)))
	if boot, set := a.option("boot"); set {
		c.BootID = boot
	}
	c.Sample = agent.sample
	if sample := readSample(a); sample != nil {
		c.Sample = sample
	}
	c.Leaving = a.flag("leaving")
	if a.flag("unmeasured") {
		c.Sample = nil
	}
	if v := a.vector(); !v.IsUnset() {
		c.Capacity = &v
	}
	a.lines(func(command string, line *arguments) {
		id := s.idOf(line.word())
		switch command {
		case "engine":
			c.Engines = append(c.Engines, s.engine(line, id, agent, c.Full))
		case "ended":
			c.Ended = append(c.Ended, ledger.EngineEnd{
				ID: id, Time: s.now, Reason: line.text("reason"), Exit: exit(line), NotBegun: line.flag("unbegun"), Phase: line.phase(), LogDirectory: line.text("log"),
			})
			delete(agent.engines, id)
		case "veto":
			headroom, _ := line.bytes("left")
			allocation, _ := s.ledger.Get(id)
			revision := allocation.Revision
			if line.flag("stale") { // of the grant before this one
				revision--
			}
			c.Vetoes = append(c.Vetoes, ledger.Veto{ID: id, Headroom: headroom, Revision: revision, Reason: line.text("reason")})
		default:
			a.t.Fatalf("%s: want engine, ended or veto, not %s", a.pos, command)
		}
	})
	result, err := s.ledger.Sync(s.now, c)
	if err != nil {
		return problem(err)
	}
	agent.sequence = c.Sequence
	if !a.flag("unheard") { // the answer is lost on its way
		agent.hear(result)
	}
	return s.trace("") + s.answer(result)
}

// engine is a report of one engine. In full it comes with the agent's record of the grant.
func (s *script) engine(line *arguments, id ledger.ID, agent *scriptAgent, full bool) ledger.EngineReport {
	r := ledger.EngineReport{ID: id}
	pid := int32(line.integer("pid", 100))
	if v := line.vector(); !v.IsUnset() {
		r.Measured = v
	}
	r.Unreclaimable, _ = line.bytes("unreclaimable")
	r.OverUse = overUseOf(line)
	r.Phase, r.PhaseReason, r.LogDirectory = line.phase(), line.text("why"), line.text("log")
	if !full {
		return r
	}
	grant := s.last[id]
	grant.RequestHash = 0 // no agent is told it
	grant.Process = ledger.Process{PID: pid, BootID: agent.register.BootID}
	if v := line.vectorOf("entitled"); !v.IsUnset() {
		grant.Entitled = resource.NewResource(v)
	}
	if labels := line.labelsOf("labels"); labels != nil {
		grant.Labels = labels
	}
	if caller, set := line.option("caller"); set {
		grant.Caller = caller
	}
	if request, set := line.option("request"); set {
		grant.RequestID = request
	}
	if created := line.durationOf("created"); created != 0 { // after the start
		grant.Created = start.Add(created)
	}
	if requested := line.vectorOf("requested"); !requested.IsUnset() {
		grant.Requested = resource.NewResource(requested)
	}
	r.Unvouched = line.flag("unsealed")
	agent.engines[id] = grant
	r.Grant = &grant
	return r
}

// overUseOf takes what an engine uses beyond its entitlement. Under the policy kill it is stopped
// 30 s after that began.
func overUseOf(line *arguments) (list []ledger.OverUse) {
	since := start.Add(line.durationOf("since"))
	values, _ := line.values("over")
	for _, value := range values {
		part := strings.Split(value, ":")
		if len(part) != 4 {
			line.t.Fatalf("%s: over=%s: want dimension:used:entitled:policy", line.pos, value)
		}
		u := ledger.OverUse{
			Dimension: part[0], Used: line.quantity(part[0], part[1]), Entitled: line.quantity(part[0], part[2]), Since: since,
		}
		for u.Policy = ledger.PolicyObserve; u.Policy.String() != part[3]; u.Policy++ {
			if u.Policy > ledger.PolicyKill {
				line.t.Fatalf("%s: no such policy: %s", line.pos, part[3])
			}
		}
		if u.Policy == ledger.PolicyKill {
			u.StopTime = since.Add(30 * time.Second)
		}
		list = append(list, u)
	}
	return list
}

// answer describes what an agent is told.
func (s *script) answer(r ledger.SyncResult) string {
	var parts []string
	if r.Action != ledger.ActionNone {
		parts = append(parts, [...]string{"", "resync", "drain", "shut down"}[r.Action])
	}
	if r.Complete {
		parts = append(parts, "these are all")
	}
	for i := range r.Grants {
		parts = append(parts, fmt.Sprintf("%s is %s", s.name(r.Grants[i].ID), r.Grants[i].State))
	}
	for _, id := range r.Gone {
		parts = append(parts, s.name(id)+" is gone")
	}
	for _, stop := range r.Stops {
		parts = append(parts, fmt.Sprintf("stop %s with %s grace: %s", s.name(stop.ID), stop.Grace, stop.Reason))
	}
	for _, id := range r.Acknowledged {
		parts = append(parts, fmt.Sprintf("the end of %s is acknowledged", s.name(id)))
	}
	if first := &r.NotTaken.First; r.NotTaken.Count > 0 {
		part := fmt.Sprintf("%d not taken in: %s is %s", r.NotTaken.Count, s.name(first.ID), first.State)
		if first.HostID != "" {
			part += " on " + first.HostID
		}
		parts = append(parts, part)
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return "answer: nothing new\n"
	}
	return "answer: " + strings.Join(parts, "; ") + "\n"
}

func (s *script) deregister(a *arguments) string {
	force := a.flag("force")
	id := a.word()
	err := s.ledger.Deregister(s.now, id, force)
	if agent := s.agents[id]; err == nil && agent != nil {
		agent.silent = true
	}
	return problem(err)
}

func (s *script) cordon(a *arguments) string {
	_, err := s.ledger.CordonFor(s.now, a.word(), a.text("reason"), a.durationOf("for"))
	return problem(err)
}

// accept believes what a host's agent claims: accept h1, or accept h1 a1 a2.
func (s *script) accept(a *arguments) string {
	host, ids := a.word(), []ledger.ID(nil)
	for _, name := range a.rest() {
		ids = append(ids, s.idOf(name))
	}
	_, left, err := s.ledger.Accept(s.now, host, ids, "local")
	if err != nil {
		return problem(err)
	}
	text := s.trace("")
	if left > 0 {
		text += fmt.Sprintf("%d left\n", left)
	}
	return text
}

func (s *script) drain(a *arguments) string {
	var deadline *time.Duration
	if text, set := a.option("deadline"); set {
		deadline = new(a.duration(text))
	}
	_, err := s.ledger.Drain(s.now, a.word(), a.text("reason"), deadline)
	return problem(err)
}

func (s *script) uncordon(a *arguments) string {
	_, err := s.ledger.Uncordon(s.now, a.word())
	return problem(err)
}
