package ledger_test

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// cluster takes "yarn:prod".
func (a *arguments) cluster() ledger.ClusterName {
	a.t.Helper()
	kind, name, _ := strings.Cut(a.word(), ":")
	return ledger.ClusterName{Kind: kind, Cluster: name}
}

// parts takes every NAME=(yarn:prod:root.a,memory=4GiB).
func (a *arguments) parts(name string) []resource.External {
	a.t.Helper()
	var parts []resource.External
	for {
		text, more := a.option(name)
		if !more {
			return parts
		}
		part, err := resource.ParseExternal(text)
		a.fatal(err)
		parts = append(parts, part)
	}
}

// provider puts one, over the API. Pairs are settings.
func (s *script) provider(a *arguments) string {
	return problem(s.ledger.PutProvider(s.now, readProvider(a)))
}

func readProvider(a *arguments) ledger.ProviderRecord {
	return ledger.ProviderRecord{ClusterName: a.cluster(), Default: a.flag("default"), Settings: a.pairs()}
}

// providerSet replaces those of a source by those in its input.
func (s *script) providerSet(a *arguments) string {
	source, _ := a.option("source")
	var list []ledger.ProviderRecord
	a.lines(func(_ string, line *arguments) { list = append(list, readProvider(line)) })
	if err := s.ledger.SetProviders(s.now, source, list); err != nil {
		return problem(err)
	}
	if strings.HasPrefix(source, ledger.SourceFilePrefix) {
		for i := range list {
			list[i].Source = source
		}
		s.mirror.providerFiles[source] = list
	}
	return ""
}

func (s *script) unprovider(a *arguments) string {
	return problem(s.ledger.DeleteProvider(s.now, a.cluster()))
}

// report is what was read of a cluster, now, or as long ago as "ago" says. Its input lists the
// queues and our applications:
//
//	queue root.a memory=8GiB used=(memory=2GiB)   with its limit
//	  container=(memory=4GiB,cpu=2)                 and the most that one container may have
//	  grows=(memory=16GiB) usersgrow=(memory=8GiB)  and what its limits may become
//	  held=2 why=no_machine                         and what the cluster holds back there
//	  apps=2 weight=1 least=(memory=1GiB) masters=0.5   and how many applications it has, and how it
//	                                                takes part in a division
//	  users=(memory=4GiB) limit.bob=(…) used.bob=(…)   and what limits users there
//	app a_1 root.a user=alice memory=2GiB         which has this allocated there, and runs as her
//	app a_1 ended                                 or: app a_1 unknown
//	app a_1 ended failure=FAILED diagnostics=…    if it did not end well
func (s *script) report(a *arguments) string {
	r := ledger.ClusterReport{ClusterName: a.cluster(), Untrusted: a.text("untrusted"), GoodFor: 30 * time.Second, Settle: time.Minute}
	r.Asked = s.now.Add(-a.durationOf("ago"))
	if text, set := a.option("good"); set {
		r.GoodFor = a.duration(text)
	}
	r.Incarnation, _ = a.option("incarnation")
	a.lines(func(command string, line *arguments) {
		switch command {
		case "queue":
			r.Queues = append(r.Queues, readQueue(line))
		case "app":
			r.Applications = append(r.Applications, readApplication(line))
		default:
			a.t.Fatalf("%s: want queue or app, not %s", a.pos, command)
		}
	})
	return problem(s.ledger.ReportCluster(s.now, r))
}

func readQueue(line *arguments) ledger.QueueReport {
	q := ledger.QueueReport{Path: line.word(), State: "RUNNING", Used: line.vectorOf("used"), CreatesChildren: line.flag("creates"), LeavesOnly: line.flag("parent")}
	if state, set := line.option("state"); set {
		q.State, q.Closed = state, state != "RUNNING"
	}
	q.Partition, _ = line.option("partition")
	q.DefaultPartition, _ = line.option("default")
	d := ledger.QueueDetails{
		LargestContainer: line.vectorOf("container"), MayGrow: line.vectorOf("grows"), UsersMayGrow: line.vectorOf("usersgrow"),
		HeldBack: ledger.HeldBack{Applications: int32(line.integer("held", 0)), Reason: line.text("why")},
	}
	q.Limit, q.FirstIsFree = line.vector(), line.flag("first-free")
	if weight, set := line.option("weight"); set {
		d.Division = readDivision(line, weight, q.Limit)
		if q.CreatesChildren {
			d.ChildDivision = new(*d.Division)
			d.ChildDivision.Masters = 0.5
		}
	}
	if !reflect.DeepEqual(d, ledger.QueueDetails{}) {
		q.Details = &d
	}
	if apps, set := line.option("apps"); set {
		n, err := strconv.ParseInt(apps, 10, 32)
		line.fatal(err)
		q.Applications = new(int32(n))
	}
	if below, set := line.option("creates-below"); set {
		q.Details = &ledger.QueueDetails{CreatesBelow: []string{below}}
	}
	users := ledger.QueueUsers{Limit: line.vectorOf("users")}
	for _, user := range []string{"alice", "bob"} {
		u := ledger.UserReport{User: user, Limit: line.vectorOf("limit." + user), Used: line.vectorOf("used." + user)}
		if !u.Limit.IsUnset() || !u.Used.IsUnset() {
			users.Listed = append(users.Listed, u)
		}
	}
	if len(users.Listed) > 0 || !users.Limit.IsUnset() {
		q.Users = &users
	}
	return q
}

// readDivision reads how a queue takes part in the division of memory.
func readDivision(line *arguments, weight string, most resource.Vector) *ledger.Division {
	n, err := strconv.ParseInt(weight, 10, 64)
	line.fatal(err)
	d := &ledger.Division{
		Divided: []string{resource.Memory}, Weight: n, LeastWeight: n, Least: line.vectorOf("least"), Most: most,
		Step: resource.Vector{}.WithMemory(1 << 20),
	}
	if masters, set := line.option("masters"); set {
		d.Masters, err = strconv.ParseFloat(masters, 64)
		line.fatal(err)
	}
	return d
}

// scriptTerms are of the settings am=1GiB, users=LABEL, and container=1GiB with step=512MiB, by
// which the cluster rounds.
func scriptTerms(p ledger.ProviderRecord) ledger.Terms {
	t := ledger.Terms{UserLabel: p.Settings["users"], AwaitStarts: p.Settings["await"] != ""}
	if am, err := resource.ParseMemory(p.Settings["am"]); err == nil {
		t.Application = resource.Vector{}.With(resource.AMMemory, am).With(resource.Applications, 1)
	}
	if least, err := resource.ParseMemory(p.Settings["container"]); err == nil {
		t.Container.Minimum = resource.Vector{}.WithMemory(least)
	}
	if step, err := resource.ParseMemory(p.Settings["step"]); err == nil {
		t.Container.Increment = resource.Vector{}.WithMemory(step)
	}
	return t
}

func readApplication(line *arguments) ledger.ApplicationReport {
	r := ledger.ApplicationReport{ID: line.word(), Known: true}
	r.User, _ = line.option("user")
	switch {
	case line.flag("ended"):
		r.Ended = true
		r.Failure, r.Diagnostics = line.text("failure"), line.text("diagnostics")
	case line.flag("unknown"):
		r.Known = false
	default:
		r.Queue = line.word()
		partition, set := line.option("partition")
		if !set {
			partition = ledger.AnyPartition
		}
		r.Allocated = map[string]resource.Vector{partition: line.vector()}
	}
	return r
}

// quiet says that a cluster could not be read.
func (s *script) quiet(a *arguments) string {
	name := a.cluster()
	s.ledger.ClusterSilent(s.now, name, a.text("reason"), a.flag("forget"))
	return ""
}

// queues lists them, or those after an address.
func (s *script) queues(a *arguments) string {
	var b strings.Builder
	var after resource.Address
	if text, set := a.option("after"); set {
		after = address(a, text)
	}
	s.ledger.Queues(after, func(q ledger.QueueInfo) bool {
		b.WriteString(s.describe(q))
		return true
	})
	return b.String()
}

// queue looks one up.
func (s *script) queue(a *arguments) string {
	q, err := s.ledger.Queue(address(a, a.word()))
	if err != nil {
		return problem(err)
	}
	return s.describe(q)
}

func address(a *arguments, text string) resource.Address {
	part, err := resource.ParseExternal(text + ",none")
	a.fatal(err)
	return part.Address
}

func (s *script) describe(q ledger.QueueInfo) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", q.Address)
	if q.Account.Limit.IsUnset() {
		fmt.Fprintf(&b, "%s used, %s reserved", nonZero(q.Account.Used), nonZero(q.Account.Reserved))
	}
	b.WriteString(s.numbers(&q.Account))
	if !q.Available.IsUnset() {
		fmt.Fprintf(&b, "; available %s", q.Available)
	}
	if q.Unavailable != "" {
		fmt.Fprintf(&b, "; closed: %s", q.Unavailable)
	}
	b.WriteByte('\n')
	return b.String()
}

// clusters lists them.
func (s *script) clusters(*arguments) string {
	var b strings.Builder
	for _, c := range s.ledger.Clusters() {
		fmt.Fprintf(&b, "%s: %d queues, %d hold", c.ClusterName, c.Queues, c.Allocations)
		if c.Unavailable != "" {
			fmt.Fprintf(&b, "; closed: %s", c.Unavailable)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// applications lists those to ask a cluster for.
func (s *script) applications(a *arguments) string {
	return fmt.Sprintf("ask for %v\n", s.ledger.Applications(a.cluster()))
}
