package storetest

import (
	"crypto/sha256"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// The generators draw from few values if rows should share them (ids, hosts, requests), and from
// all valid values otherwise.
var (
	states   = []ledger.State{ledger.Waiting, ledger.Reserved, ledger.Active, ledger.Released, ledger.Expired, ledger.Canceled, ledger.Lost}
	ids      = []ledger.ID{1, 2, 3, 4, 5, 6, 7, 1 << 62, 1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<64 - 1}
	callers  = []string{"alice@h1", "bob@h1", ""}
	requests = []string{"", "r1", "r2"}
	hostIDs  = []string{"h1", "h2", "h3.example.org"}
	ends     = []ledger.Instant{1, 1000, 1001, 1_000_000_000, 1 << 62}
)

// text draws valid UTF-8, mostly short.
func text(t *rapid.T, name string) string { return rapid.StringN(0, 8, 40).Draw(t, name) }

func instant(t *rapid.T, name string) ledger.Instant {
	return ledger.Instant(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, name))
}

func duration(t *rapid.T, name string) time.Duration {
	return time.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, name))
}

// Labels draws a set of labels.
func Labels(t *rapid.T, name string) label.Set {
	set, err := label.FromMap(rapid.MapOfN(
		rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9_./-]{0,5}`), rapid.StringMatching(`[ -~äö€]{0,6}`), 0, 3).Draw(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func vector(t *rapid.T, name string) resource.Vector {
	quantity := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, resource.MaxQuantity))
	var v resource.Vector
	for _, dimension := range []string{resource.Memory, resource.CPU, resource.Instances, "gpu", "fpga"} {
		if rapid.Bool().Draw(t, name+" has "+dimension) {
			v = v.With(dimension, quantity.Draw(t, name+" "+dimension))
		}
	}
	return v
}

// Resource draws a resource with up to two external parts.
func Resource(t *rapid.T, name string) resource.Resource {
	r := resource.Resource{Vector: vector(t, name)}
	for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"root.a", "root.b"}), 0, 2, rapid.ID).Draw(t, name+" paths") {
		r = r.WithPart(resource.Address{Kind: "yarn", Path: path, Partition: "p"}, vector(t, name+" "+path))
	}
	return r
}

// Allocation draws an allocation with this id, in any state and with any values that a ledger
// accepts.
func Allocation(t *rapid.T, id ledger.ID) ledger.Allocation {
	a := ledger.Allocation{
		ID: id, RequestID: rapid.SampledFrom(requests).Draw(t, "request"),
		Caller: rapid.SampledFrom(callers).Draw(t, "caller"), RequestHash: rapid.Uint64().Draw(t, "hash"),
		State: rapid.SampledFrom(states).Draw(t, "state"), Labels: Labels(t, "labels"),
		Requested: Resource(t, "requested"), Entitled: Resource(t, "entitled"),
		HostID: rapid.SampledFrom(append(hostIDs, "")).Draw(t, "host"), HostAddress: text(t, "address"),
		Priority: rapid.Int32().Draw(t, "priority"),
		Created:  instant(t, "created"), Reserved: instant(t, "reserved"), Confirmed: instant(t, "confirmed"),
		Expires: instant(t, "expires"), WaitDeadline: instant(t, "deadline"), PassedSince: instant(t, "passed"),
		ReservationTTL: duration(t, "ttl"), Lease: duration(t, "lease"), StopGrace: duration(t, "grace"),
		Async: rapid.Bool().Draw(t, "async"), OverLimit: rapid.Bool().Draw(t, "over limit"), Forget: rapid.Bool().Draw(t, "forget"),
		Stopping: rapid.Bool().Draw(t, "stopping"), Reason: text(t, "reason"), ErrorOutput: text(t, "error output"), StopReason: text(t, "stop reason"),
		Address: text(t, "engine"), ApplicationIDs: rapid.SliceOfN(rapid.StringN(0, 4, 16), 0, 2).Draw(t, "applications"),
		Unreclaimable: rapid.Int64().Draw(t, "unreclaimable"), Measured: vector(t, "measured"), Peak: ledger.NewPeak(vector(t, "peak"), ledger.PeakSource(rapid.Uint8Max(uint8(ledger.PeakLimit)).Draw(t, "peak source"))),
		CPUTime:   max(0, duration(t, "cpu time")),
		Releasing: rapid.Bool().Draw(t, "releasing"), MemoryLimit: ledger.Pages(rapid.Uint32().Draw(t, "memory limit")), Subordinate: rapid.Bool().Draw(t, "subordinate"),
		Revision: rapid.Uint64().Draw(t, "revision"), GrantRevision: rapid.Uint64().Draw(t, "grant revision"),
	}
	if !a.State.Live() {
		a.Ended = rapid.SampledFrom(ends).Draw(t, "ended")
	}
	if rapid.Bool().Draw(t, "has process") {
		a.Process = ledger.Process{
			PID: rapid.Int32().Draw(t, "pid"), StartTime: rapid.Uint64().Draw(t, "start"), Cgroup: text(t, "cgroup"), BootID: text(t, "boot"), Verified: rapid.Bool().Draw(t, "verified"), Launched: rapid.Bool().Draw(t, "launched"),
		}
	}
	if rapid.Bool().Draw(t, "has exit") {
		a.Exit = &ledger.ExitStatus{Signal: rapid.Int32().Draw(t, "signal"), OutOfMemory: rapid.Bool().Draw(t, "out of memory")}
		if rapid.Bool().Draw(t, "has code") {
			a.Exit.Code = new(rapid.Int32().Draw(t, "code"))
		}
	}
	if rapid.Bool().Draw(t, "has leader end") {
		a.LeaderEnd = &ledger.LeaderEnd{
			Time: instant(t, "leader end"), Exit: a.Exit, Policy: ledger.LeaderEndPolicy(rapid.Uint8Max(uint8(ledger.StopAtLeaderEnd)).Draw(t, "leader end policy")),
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "over-use") {
		a.OverUse = append(a.OverUse, ledger.OverUse{
			Dimension: text(t, "dimension"), Used: rapid.Int64().Draw(t, "used"), Entitled: rapid.Int64().Draw(t, "entitled to"),
			Since: instant(t, "since"), Policy: ledger.OverUsePolicy(rapid.Uint8Max(uint8(ledger.PolicyKill)).Draw(t, "policy")),
			StopTime: instant(t, "stop"),
		})
	}
	notes := ledger.Notes{StopError: text(t, "stop error")}
	for range rapid.IntRange(0, 2).Draw(t, "incidents") {
		notes.Incidents = append(notes.Incidents, ledger.Incident{
			Kind:      ledger.IncidentKind(rapid.Uint8Range(1, uint8(ledger.IncidentLimitNotHeld)).Draw(t, "kind")),
			Dimension: text(t, "of dimension"), Count: rapid.Int64().Draw(t, "count"), First: instant(t, "first"), Last: instant(t, "last"),
			MostUsed: rapid.Int64().Draw(t, "most"), Bound: rapid.Int64().Draw(t, "bound"), Ongoing: rapid.Bool().Draw(t, "ongoing"),
		})
	}
	if notes.StopError != "" || len(notes.Incidents) > 0 {
		a.Notes = &notes
	}
	if rapid.Bool().Draw(t, "has claims") {
		a.Claimed = &ledger.Claim{
			Caller: rapid.SampledFrom(callers).Draw(t, "claimed caller"), RequestID: rapid.SampledFrom(requests).Draw(t, "claimed request"),
			Labels: Labels(t, "claimed labels"), Requested: Resource(t, "claimed requested"), Entitled: Resource(t, "claimed entitled"),
		}
	}
	if c := a.Claimed; c != nil {
		c.Subordinate = c.Caller != "" && rapid.Bool().Draw(t, "claimed subordinate")
	}
	a.Subordinate = a.Subordinate && a.Caller != ""
	if rapid.Bool().Draw(t, "has start") {
		a.Start = start(t)
	}
	if rapid.Bool().Draw(t, "has wishes") {
		a.Wishes = &ledger.Wishes{
			Host: text(t, "wished host"), Required: Labels(t, "required"), Preferred: Labels(t, "preferred"),
			Avoid: rapid.SliceOfN(rapid.SampledFrom(hostIDs), 0, 2).Draw(t, "avoid"), Rules: rules(t),
		}
	}
	return a
}

// rules draws conditions on labels; nil if there are none.
func rules(t *rapid.T) *ledger.Rules {
	draw := func(name string) (list []label.Rule) {
		for _, text := range rapid.SliceOfN(rapid.SampledFrom([]string{"zone in (a,b)", "!old", "cores>8", `disk!="a, b"`}), 0, 2).Draw(t, name) {
			rule, err := label.ParseRule(text)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, rule)
		}
		return list
	}
	r := &ledger.Rules{Required: draw("required rules"), Preferred: draw("preferred rules"), Avoided: draw("avoided rules")}
	if len(r.Required)+len(r.Preferred)+len(r.Avoided) == 0 {
		return nil
	}
	return r
}

// start draws the start of an engine; nil if it is empty.
func start(t *rapid.T) *ledger.Start {
	s := &ledger.Start{Name: text(t, "name"), Phase: ledger.Phase(rapid.Uint8Max(uint8(ledger.Failed)).Draw(t, "phase"))}
	if s.Phase != ledger.PhaseUnknown {
		s.PhaseSince, s.PhaseReason = instant(t, "phase since"), text(t, "phase reason")
	}
	if rapid.Bool().Draw(t, "has launch") {
		s.Launch = &ledger.Launch{
			Account: text(t, "account"), Program: text(t, "program"), LogDirectory: text(t, "log directory"), Watched: rapid.Bool().Draw(t, "watched"),
			Retries: rapid.Int32Min(0).Draw(t, "retries"), Row: ledger.ID(rapid.Uint64().Draw(t, "launch row")), RowBytes: rapid.Int32Min(0).Draw(t, "launch row's bytes"),
			Successor: ledger.ID(rapid.Uint64().Draw(t, "successor")),
		}
		for range rapid.IntRange(0, 2).Draw(t, "tries") {
			s.Launch.Tries = append(s.Launch.Tries, ledger.Try{
				HostID: text(t, "tried host"), At: instant(t, "tried at"), Reason: text(t, "try's reason"), Executed: rapid.Bool().Draw(t, "executed"), ErrorOutput: text(t, "try's output"),
				Fault: ledger.Fault(rapid.Uint8Max(uint8(ledger.NotExecutable)).Draw(t, "fault")),
			})
		}
	}
	if s.Name == "" && s.Phase == ledger.PhaseUnknown && s.Launch == nil {
		return nil
	}
	return s
}

// Host draws a host.
func Host(t *rapid.T) ledger.HostRecord {
	return ledger.HostRecord{
		ID: rapid.SampledFrom(hostIDs).Draw(t, "host id"), Address: text(t, "host address"), Labels: Labels(t, "host labels"),
		Capacity: vector(t, "capacity"), Protected: vector(t, "protected"), Cordoned: rapid.Bool().Draw(t, "cordoned"),
		Draining: rapid.Bool().Draw(t, "draining"), Lost: rapid.Bool().Draw(t, "lost"), Reason: text(t, "host reason"),
		Registered: instant(t, "registered"), Incarnation: rapid.Uint64().Draw(t, "incarnation"), BootID: text(t, "host boot"),
		MachineID: text(t, "machine"), PIDNamespace: text(t, "pid namespace"),
		Token: ledger.TokenHash(text(t, "token")), TokenBefore: ledger.TokenHash(text(t, "token before")),
		Version: text(t, "version"), Revision: rapid.Uint64().Draw(t, "host revision"), StopTime: instant(t, "host stop"), Left: rapid.Bool().Draw(t, "left"), CordonedUntil: instant(t, "cordoned until"),
	}
}

// selectors are those of the rules that Quota draws.
var selectors = []string{"*", "user=alice", "user=*", "creator=IDE,user=*"}

// Quota draws a rule.
func Quota(t *rapid.T) ledger.Quota {
	selector, err := label.ParseSelector(rapid.SampledFrom(selectors).Draw(t, "selector"))
	if err != nil {
		t.Fatal(err)
	}
	q := ledger.Quota{
		Selector: selector, Limit: vector(t, "limit"), Guaranteed: vector(t, "guaranteed"),
		Weight: rapid.Int32().Draw(t, "weight"), Source: rapid.SampledFrom([]string{"api", "ldap"}).Draw(t, "source"),
	}
	q.External, q.GuaranteedExternal = places(t, "limit"), places(t, "guaranteed")
	if rapid.Bool().Draw(t, "has normalization") {
		q.Normalization = &resource.Normalization{Increment: vector(t, "increment"), Maximum: vector(t, "maximum")}
	}
	return q
}

// places draws the external parts of a rule.
func places(t *rapid.T, what string) (list []resource.External) {
	for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"*", "root.a"}), 0, 2, rapid.ID).Draw(t, what+" in paths") {
		at := resource.Address{Kind: "yarn", Cluster: rapid.SampledFrom([]string{"*", "prod"}).Draw(t, what+" in cluster"), Path: path}
		v := vector(t, what+" in "+path).WithInstances(rapid.Int64Range(0, 9).Draw(t, what+" of instances"))
		list = append(list, resource.External{Address: at, Vector: v})
	}
	return resource.NewLimits(list...)
}

// clusters are those of the providers that Provider draws.
var clusters = []ledger.ClusterName{{Kind: "yarn", Cluster: "prod"}, {Kind: "yarn", Cluster: "a:b\\"}, {Kind: "other", Cluster: "prod"}}

// Provider draws a provider.
func Provider(t *rapid.T) ledger.ProviderRecord {
	return ledger.ProviderRecord{
		ClusterName: rapid.SampledFrom(clusters).Draw(t, "cluster"), Default: rapid.Bool().Draw(t, "default"), Source: "api",
		Settings: rapid.MapOfN(rapid.StringMatching(`[a-z]{1,8}`), rapid.StringN(0, 8, 40), 0, 3).Draw(t, "settings"),
	}
}

// Refusal draws one of a few refused commands.
func Refusal(t *rapid.T) ledger.Refusal {
	return ledger.Refusal{
		Hash: sha256.Sum256([]byte{rapid.ByteRange(0, 3).Draw(t, "command")}), At: ledger.Instant(rapid.Int64Range(1, 1<<62).Draw(t, "refused at")),
		Procedure: rapid.StringN(0, 8, 40).Draw(t, "procedure"), Caller: rapid.StringN(0, 8, 40).Draw(t, "caller"),
		Cause: rapid.StringN(0, 8, 40).Draw(t, "cause"), Version: rapid.SampledFrom([]string{"", "1.2", "1.3"}).Draw(t, "version"),
		Unversioned: rapid.Bool().Draw(t, "unversioned"),
	}
}

// Changes draws the changes of one batch, which may change a row several times.
func Changes(t *rapid.T) ledger.Changes {
	c := ledger.Changes{Revision: rapid.Uint64().Draw(t, "batch revision"), LastID: ledger.ID(rapid.Uint64().Draw(t, "last id")), Time: ledger.Instant(rapid.Int64().Draw(t, "time"))}
	c.Outages = rapid.SampledFrom([]string{"", "", "1:2:3:4 "}).Draw(t, "outages")
	for range rapid.IntRange(0, 6).Draw(t, "transitions") {
		c.Transitions = append(c.Transitions, Allocation(t, rapid.SampledFrom(ids).Draw(t, "id")))
	}
	for range rapid.IntRange(0, 2).Draw(t, "hosts") {
		c.Hosts = append(c.Hosts, Host(t))
	}
	for range rapid.IntRange(0, 2).Draw(t, "quotas") {
		c.Quotas = append(c.Quotas, Quota(t))
	}
	for range rapid.IntRange(0, 2).Draw(t, "providers") {
		c.Providers = append(c.Providers, Provider(t))
	}
	for range rapid.IntRange(0, 2).Draw(t, "refusals") {
		c.Refusals = append(c.Refusals, Refusal(t))
	}
	for range rapid.IntRange(0, 2).Draw(t, "refusals removed") {
		gone := Refusal(t)
		c.RefusalsRemoved = append(c.RefusalsRemoved, gone.ID())
	}
	c.ProvidersRemoved = rapid.SliceOfN(rapid.SampledFrom(clusters), 0, 2).Draw(t, "providers removed")
	c.HostsRemoved = rapid.SliceOfN(rapid.SampledFrom(hostIDs), 0, 2).Draw(t, "hosts removed")
	c.QuotasRemoved = rapid.SliceOfN(rapid.SampledFrom(selectors), 0, 2).Draw(t, "quotas removed")
	return c
}

// Typical is a typical allocation, of a few hundred bytes.
func Typical(id ledger.ID, state ledger.State, revision uint64) ledger.Allocation {
	at := ledger.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)).Add(time.Duration(id%1e12) * time.Millisecond)
	r := resource.Resource{Vector: resource.Vector{}.WithMemory(4 << 30).WithCPU(2000).WithInstances(1)}
	a := ledger.Allocation{
		ID: id, RequestID: strings.ToLower(id.String()), Caller: "alice@host-0123", RequestHash: uint64(id), State: state,
		Labels: label.Of("creator", "IDE", "engineType", "spark-3.3", "user", "alice"), Requested: r, Entitled: r,
		HostID: "host-0123.example.org", HostAddress: "10.1.2.3:7071", Created: at, Reserved: at, WaitDeadline: at,
		ReservationTTL: 2 * time.Minute, Revision: revision, GrantRevision: revision,
	}
	if !state.Live() {
		a.Ended = at.Add(time.Hour)
	}
	return a
}
