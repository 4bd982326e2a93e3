package coordinator

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/resource"
)

func (c *storer) allocate() {
	command := ledger.AllocateCommand{
		Actor: c.actor(), RequestID: c.text("request"), RequestHash: 1, Labels: storetest.Labels(c.T, "labels"), Resource: c.resource("asked"),
		Wait: c.duration("wait"), Async: rapid.Bool().Draw(c.T, "async"), ReservationTTL: c.duration("ttl"),
		Priority: rapid.Int32().Draw(c.T, "priority"),
	}
	if rapid.Bool().Draw(c.T, "wishes") {
		command.Wishes = &ledger.Wishes{Host: c.host(), Avoid: []string{c.text("avoid")}, Preferred: storetest.Labels(c.T, "preferred")}
	}
	c.do(func(l *ledger.Ledger) error {
		_, err := l.Allocate(c.now, command)
		return err
	})
}

// change does one of the things that can be done to an allocation.
func (c *storer) change() {
	actor, id, why := c.actor(), c.id(), c.text("reason")
	entitled := c.resource("entitled")
	applications := make([]string, rapid.SampledFrom([]int{0, 1, 40, 64, 65}).Draw(c.T, "applications"))
	for i := range applications {
		applications[i] = fmt.Sprint(c.text("application"), i)
	}
	confirm := ledger.ConfirmCommand{
		Actor: actor, ID: id, Process: c.process(), Address: c.text("address"), ApplicationIDs: applications, Lease: c.duration("lease"),
	}
	if rapid.Bool().Draw(c.T, "entitled") {
		confirm.Entitled = &entitled
	}
	grace, exit := c.duration("grace"), c.exit()
	change := rapid.IntRange(0, 7).Draw(c.T, "change")
	c.do(func(l *ledger.Ledger) (err error) {
		switch change {
		case 0, 1:
			_, err = l.Confirm(c.now, confirm)
		case 2, 3:
			_, err = l.Resize(c.now, ledger.ResizeCommand{Actor: actor, ID: id, Entitled: entitled})
		case 4:
			_, err = l.Release(c.now, ledger.ReleaseCommand{Actor: actor, ID: id, Reason: why, Exit: exit})
		case 5:
			_, err = l.Cancel(c.now, ledger.CancelCommand{Actor: actor, ID: id, Reason: why})
		case 6:
			_, err = l.Renew(c.now, ledger.RenewCommand{Actor: actor, ID: id, TTL: grace})
		default:
			_, err = l.Stop(c.now, ledger.StopCommand{Actor: actor, ID: id, Reason: why, Grace: &grace})
		}
		return err
	})
}

func (c *storer) register() {
	large := resource.Vector{}.WithMemory(1 << 50).WithCPU(1 << 50).WithInstances(1 << 50)
	for i := range 14 {
		large = large.With("a"+string(rune('a'+i)), 1<<20)
	}
	command := ledger.RegisterCommand{
		HostID: c.host(), Address: c.text("address"), Labels: storetest.Labels(c.T, "host labels"), Capacity: large,
		BootID: c.text("boot"), Incarnation: 1, Version: c.text("version"),
	}
	if rapid.IntRange(0, 4).Draw(c.T, "small") == 0 {
		command.Capacity, command.Protected = c.vector("capacity"), c.vector("protected")
	}
	c.sequence++
	c.do(func(l *ledger.Ledger) error {
		_, err := l.Register(c.now, command)
		if err == nil {
			_, err = l.Sync(c.now, ledger.SyncCommand{
				HostID: command.HostID, BootID: command.BootID, Incarnation: 1, Sequence: c.sequence, Full: true,
				Sample: &ledger.Sample{MemoryAvailable: new(int64(1 << 50))},
			})
		}
		return err
	})
}

// sync reports engines, known or not, as a damaged agent might.
func (c *storer) sync() {
	c.sequence++
	command := ledger.SyncCommand{HostID: c.host(), Incarnation: 1, Sequence: c.sequence, Full: rapid.Bool().Draw(c.T, "full")}
	if info, known := c.core.Ledger().Host(command.HostID); known {
		command.BootID = info.BootID
	}
	for range rapid.IntRange(0, 2).Draw(c.T, "engines") {
		id := c.id()
		engine := ledger.EngineReport{
			ID: id, Measured: c.vector("measured"), Peak: c.vector("peak"), Unreclaimable: c.number("unreclaimable"), StopError: c.text("stop error"),
		}
		if rapid.Bool().Draw(c.T, "leader ended") {
			engine.LeaderEnd = &ledger.LeaderEnd{Time: ledger.Instant(c.number("leader end")), Policy: ledger.StopAtLeaderEnd, Exit: &ledger.ExitStatus{Signal: 9}}
		}
		if rapid.Bool().Draw(c.T, "over") {
			engine.OverUse = []ledger.OverUse{{
				Dimension: c.text("dimension"), Used: c.number("used"), Since: ledger.Instant(c.number("since")),
				Policy: ledger.OverUsePolicy(rapid.Uint8Max(9).Draw(c.T, "policy")), StopTime: ledger.Instant(c.number("stop")),
			}}
		}
		if rapid.IntRange(0, 3).Draw(c.T, "granted") > 0 {
			grant := storetest.Allocation(c.T, id)
			grant.Requested, grant.Entitled, grant.Process = c.resource("requested"), c.resource("entitled"), c.process()
			grant.Caller, grant.RequestID, grant.Address, grant.StopReason = c.text("caller"), c.text("request"), c.text("address"), c.text("stop")
			grant.ApplicationIDs = []string{c.text("application")}
			engine.Grant = &grant
		}
		command.Engines = append(command.Engines, engine)
	}
	if rapid.Bool().Draw(c.T, "ended") {
		command.Ended = []ledger.EngineEnd{{ID: c.id(), Reason: c.text("reason"), Exit: c.exit(), Measured: c.vector("last"), Peak: c.vector("most")}}
	}
	if rapid.Bool().Draw(c.T, "veto") {
		command.Vetoes = []ledger.Veto{{ID: c.id(), Headroom: c.number("headroom"), Revision: 1 << 60}}
	}
	if rapid.IntRange(0, 4).Draw(c.T, "resized") == 0 {
		command.Capacity = new(c.vector("capacity"))
	}
	c.do(func(l *ledger.Ledger) error {
		_, err := l.Sync(c.now, command)
		return err
	})
}

// operate does one of the things that can be done to a host.
func (c *storer) operate() {
	id, why, deadline := c.host(), c.text("reason"), c.duration("deadline")
	change := rapid.IntRange(0, 6).Draw(c.T, "change")
	c.do(func(l *ledger.Ledger) (err error) {
		switch change {
		case 0, 1:
			_, err = l.Cordon(c.now, id, why)
		case 2, 3:
			_, err = l.Uncordon(c.now, id)
		case 4, 5:
			_, err = l.Drain(c.now, id, why, &deadline)
		default:
			err = l.Deregister(c.now, id, true)
		}
		return err
	})
}

func (c *storer) quota() {
	q := storetest.Quota(c.T)
	q.Limit, q.Guaranteed = c.vector("limit"), c.vector("guaranteed")
	if q.Normalization != nil {
		q.Normalization.Minimum = c.vector("minimum")
	}
	set := ledger.QuotaSet{Source: c.text("source"), Quotas: []ledger.Quota{q}, Prune: rapid.Bool().Draw(c.T, "prune")}
	remove := rapid.IntRange(0, 3).Draw(c.T, "remove") == 0
	c.do(func(l *ledger.Ledger) error {
		if remove {
			return l.DeleteQuota(c.now, q.Selector)
		}
		_, err := l.ApplyQuotas(c.now, set)
		return err
	})
}

func (c *storer) provider() {
	p := ledger.ProviderRecord{ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "p"}, Default: true}
	if rapid.IntRange(0, 2).Draw(c.T, "strange") == 0 {
		p = storetest.Provider(c.T)
		p.Kind, p.Cluster = rapid.SampledFrom([]string{"yarn", "a:b", "\xff", ""}).Draw(c.T, "kind"), c.text("cluster")
		p.Settings = map[string]string{c.text("setting"): c.text("value")}
	}
	c.do(func(l *ledger.Ledger) error { return l.PutProvider(c.now, p) })
}

// cluster tells of queues, some with names that nobody could ask for.
func (c *storer) cluster() {
	limit := resource.Vector{}.WithMemory(1 << 50).WithCPU(1 << 50)
	report := ledger.ClusterReport{ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "p"}, Asked: c.now, GoodFor: 1 << 50}
	for _, path := range []string{"root", "root.a", "root.b", "root" + strings.Repeat(".x", 40) + ".deep", "root.\xff.deep"} {
		if path == "root" || rapid.Bool().Draw(c.T, "has a queue") {
			report.Queues = append(report.Queues, ledger.QueueReport{Path: path, Limit: limit, DefaultPartition: c.text("partition")})
		}
	}
	c.do(func(l *ledger.Ledger) error { return l.ReportCluster(c.now, report) })
}

func (c *storer) pass() {
	c.now = c.now.Add(rapid.SampledFrom([]ledger.Instant{1, 1e9, 60e9, 3600e9, 86400e9}).Draw(c.T, "time").Sub(0))
	c.do(func(*ledger.Ledger) error { return nil })
}
