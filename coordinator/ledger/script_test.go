package ledger_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
)

// TestScripts runs the scenarios of testdata. They are written to be read: start with
// testdata/first.txt, which explains the form. After every command the ledger is audited, and
// compared with one that is restored from all changes so far. "go test -run Scripts -rewrite"
// writes what happens now into the files.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if filepath.Ext(path) != ".txt" {
			return // what a failure of rapid has left
		}
		s := newScript(ledger.Config{})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return s.run(t, d)
		})
	})
}

// start is when every script begins.
var start = ledger.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// script is one scenario: a ledger, the store behind it, and the agents that report to it.
type script struct {
	config ledger.Config
	ledger *ledger.Ledger
	mirror *mirror
	now    ledger.Instant
	agents map[string]*scriptAgent

	names map[ledger.ID]string // a1, a2 … in the order of their first appearance
	ids   map[string]ledger.ID
	last  map[ledger.ID]ledger.Allocation // as of its last transition
}

func newScript(config ledger.Config) *script {
	config.Terms = scriptTerms
	return &script{
		config: config,
		ledger: ledger.New(config, newPlainPlacer()),
		mirror: newMirror(),
		now:    start,
		agents: make(map[string]*scriptAgent),
		names:  make(map[ledger.ID]string),
		ids:    make(map[string]ledger.ID),
		last:   make(map[ledger.ID]ledger.Allocation),
	}
}

// commands are what a script can say, by name. Each returns its answer; what it changed is traced
// before that.
func (s *script) commands() map[string]func(a *arguments) string {
	return map[string]func(*arguments) string{
		"config":      s.configure,
		"host":        s.host,
		"sample":      s.sample,
		"sync":        s.sync,
		"silence":     s.silence,
		"hear":        s.hear,
		"deregister":  s.deregister,
		"cordon":      s.cordon,
		"accept":      s.accept,
		"drain":       s.drain,
		"uncordon":    s.uncordon,
		"quota":       s.quota,
		"quotas":      s.quotaSet,
		"rules":       s.rules,
		"apply":       s.applyQuotas,
		"unquota":     s.unquota,
		"allocate":    s.allocate,
		"confirm":     s.confirm,
		"began":       s.began,
		"failed":      s.failed,
		"release":     s.release,
		"cancel":      s.cancel,
		"amend":       s.amend,
		"renew":       s.renew,
		"resize":      s.resize,
		"stop":        s.stop,
		"detach":      s.detach,
		"explain":     s.explain,
		"advance":     s.advance,
		"restart":     s.restart,
		"accounts":    s.accounts,
		"allocations": s.allocations,
		"hosts":       s.hosts,
		"remembered":  s.remembered,

		"provider":     s.provider,
		"providers":    s.providerSet,
		"unprovider":   s.unprovider,
		"report":       s.report,
		"quiet":        s.quiet,
		"queues":       s.queues,
		"queue":        s.queue,
		"clusters":     s.clusters,
		"applications": s.applications,
	}
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	command, known := s.commands()[d.Cmd]
	if !known {
		t.Fatalf("%s: no such command: %s; there are %v", d.Pos, d.Cmd, slices.Sorted(maps.Keys(s.commands())))
	}
	a := &arguments{t: t, pos: d.Pos, list: d.CmdArgs, input: d.Input}
	answer := command(a)
	a.done()
	goOn(s.ledger, s.now)
	output := s.trace("") + answer
	for _, v := range s.ledger.Audit() {
		output += fmt.Sprintf("AUDIT: invariant %d: %s\n", v.Invariant, v.Message)
	}
	output += s.ledger.CheckShareUses()
	output += s.mirror.compare(s.now, s.config, s.ledger)
	return s.legible(output)
}

// trace tells what changed since the last time, by revision.
func (s *script) trace(prefix string) string {
	c := s.ledger.Changes()
	lines := make(map[uint64]string)
	for i := range c.Transitions {
		a := &c.Transitions[i]
		lines[a.Revision] = fmt.Sprintf("%s%s %s\n", prefix, s.name(a.ID), s.transition(a))
		s.last[a.ID] = *a
	}
	for _, h := range c.Hosts {
		lines[h.Revision] = fmt.Sprintf("%s%s %s\n", prefix, h.ID, s.hostChange(h))
	}
	s.mirror.fold(c)
	s.ledger.Durable(s.now, c.Revision)
	var text strings.Builder
	for _, revision := range slices.Sorted(maps.Keys(lines)) {
		text.WriteString(lines[revision])
	}
	for _, q := range c.Quotas {
		fmt.Fprintf(&text, "%squota %s is stored\n", prefix, q.Selector)
	}
	for _, selector := range c.QuotasRemoved {
		fmt.Fprintf(&text, "%squota %s is removed\n", prefix, selector)
	}
	for _, p := range c.Providers {
		fmt.Fprintf(&text, "%sprovider %s is stored\n", prefix, p.ClusterName)
	}
	for _, name := range c.ProvidersRemoved {
		fmt.Fprintf(&text, "%sprovider %s is removed\n", prefix, name)
	}
	for _, row := range c.Launches {
		fmt.Fprintf(&text, "%slaunch %s is stored: %s\n", prefix, s.name(row.ID), row.Spec)
	}
	for _, id := range c.LaunchesRemoved {
		fmt.Fprintf(&text, "%slaunch %s is removed\n", prefix, s.name(id))
	}
	for _, id := range c.HostsRemoved {
		fmt.Fprintf(&text, "%s%s is removed\n", prefix, id)
	}
	return text.String()
}

// name is the short name of an allocation.
func (s *script) name(id ledger.ID) string {
	if id == 0 {
		return "none"
	}
	if _, known := s.names[id]; !known {
		s.names[id] = fmt.Sprintf("a%d", len(s.names)+1)
		s.ids[s.names[id]] = id
	}
	return s.names[id]
}

// legible replaces the text of ids by short names.
func (s *script) legible(text string) string {
	for id, name := range s.names {
		text = strings.ReplaceAll(text, id.String(), name)
	}
	return text
}

// since writes a moment as the time since the start of the script.
func since(at ledger.Instant) string { return at.Sub(start).String() }

// advance lets time pass, as it does for a server: the ledger is told when its next timer is due,
// and agents report every interval, unless they are silenced.
func (s *script) advance(a *arguments) string {
	target := s.now.Add(a.duration(a.word()))
	var text strings.Builder
	for {
		due, what := s.next(target)
		s.now = max(s.now, due)
		if what == nil {
			s.ledger.Advance(s.now)
		} else {
			what.beat(s)
		}
		goOn(s.ledger, s.now)
		text.WriteString(s.trace("@" + since(s.now) + " "))
		if next, set := s.ledger.NextTimer(); set && next <= s.now {
			a.t.Fatalf("%s: at %s a timer is due at %s and Advance does not take it away", a.pos, since(s.now), since(next))
		}
		if s.now == target && what == nil {
			return text.String()
		}
	}
}

// next is what happens next, up to a time: an agent's report, or, if that is nil, a timer of the
// ledger.
func (s *script) next(target ledger.Instant) (ledger.Instant, *scriptAgent) {
	due := target
	if timer, set := s.ledger.NextTimer(); set {
		due = min(due, timer)
	}
	var who *scriptAgent
	for _, id := range slices.Sorted(maps.Keys(s.agents)) {
		if agent := s.agents[id]; !agent.silent && (agent.due < due || (agent.due == due && who == nil)) {
			due, who = agent.due, agent
		}
	}
	return due, who
}

// restart makes a new ledger of what was stored, down=1h an hour later: no coordinator ran, or its
// clock was that far behind. Agents do not notice before they report.
func (s *script) restart(a *arguments) string {
	if text, set := a.option("down"); set {
		s.mirror.latest = s.now
		s.now = s.now.Add(a.duration(text))
	}
	for _, word := range a.rest() {
		a.t.Fatalf("%s: restart takes only down=: %s", a.pos, word)
	}
	restored, err := s.mirror.restore(s.now, s.config)
	s.mirror.latest = 0
	if err != nil {
		return problem(err)
	}
	s.ledger = restored
	return ""
}

func (s *script) configure(a *arguments) string {
	durations := map[string]*time.Duration{
		"ttl": &s.config.ReservationTTL, "interval": &s.config.Interval, "lost": &s.config.LostAfter,
		"starvation": &s.config.StarvationAfter, "grace": &s.config.CallerGrace, "retention": &s.config.RequestRetention,
	}
	for name, d := range durations {
		if text, set := a.option(name); set {
			*d = a.duration(text)
		}
	}
	if kinds, set := a.option("fullPaths"); set {
		s.config.FullPaths = strings.Split(kinds, ",")
	}
	if s.config.RequestRetention > 0 {
		s.mirror.retention = s.config.RequestRetention
	}
	s.config.JoinCordoned = a.flag("joinCordoned")
	if s.mirror.revision != 0 {
		a.t.Fatalf("%s: config must come first", a.pos)
	}
	s.ledger = ledger.New(s.config, newPlainPlacer())
	return ""
}

// actor is who gives a command: "as=alice" is alice for herself, "as=gateway anyone" a service for
// all users, and without either it is a user of this machine, who may do everything.
func (s *script) actor(a *arguments) identity.Actor {
	name, given := a.option("as")
	if !given {
		return identity.Local()
	}
	if a.flag("anyone") {
		return identity.Actor{Name: name, Anyone: true}
	}
	return identity.Actor{Name: name, Users: []string{name}}
}
