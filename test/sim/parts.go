package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// naming is how an engine names its applications.
type naming int

const (
	atOnce  naming = iota // with its confirmation
	later                 // when it has started them, by another one
	untold                // never
	without               // it starts none
)

// drawParts adds parts in queues to some of the requests.
func (a *attempt) drawParts() {
	w := a.l.w
	if len(w.clusters) == 0 || w.chance(3) {
		return
	}
	e := w.clusters[w.rng.IntN(len(w.clusters))]
	at := resource.Address{Kind: e.name.Kind, Cluster: e.name.Cluster}
	switch w.rng.IntN(4) {
	case 0:
		if e.standard || len(w.clusters) == 1 || w.chance(4) {
			at.Cluster = ""
		}
	case 1:
		at.Cluster = ""
		a.command.Labels = label.Of(append([]string{label.Cluster, e.name.Cluster}, pairs(a.command.Labels)...)...)
	}
	r := a.command.Resource
	for i := range 1 + w.rng.IntN(2) {
		if other := w.clusters[len(w.clusters)-1]; i > 0 && w.chance(4) {
			at.Cluster = other.name.Cluster
		}
		at.Path, at.Partition = w.drawPath(), ""
		if w.chance(3) && (leaf(at.Path) == "a1" || leaf(at.Path) == "a") {
			at.Partition = "fast"
		}
		size := amount{(1 + w.rng.Int64N(10)) * gib, w.rng.Int64N(5) * 1000, 0}
		if w.chance(6) {
			size[2] = 1
		}
		twice := func(x resource.External) bool { return leaf(x.Path) == leaf(at.Path) }
		if !slices.ContainsFunc(r.External, twice) {
			r = r.WithPart(at, size.vector())
		}
	}
	a.naming = []naming{atOnce, atOnce, later, untold, without}[w.rng.IntN(5)]
	if w.chance(4) {
		a.remote, a.naming = true, atOnce
		r.Vector = resource.Vector{}.WithMemory(0).WithCPU(0)
	}
	a.command.Resource = r
}

func pairs(set label.Set) (list []string) {
	for _, l := range set {
		list = append(list, l.Key, l.Value)
	}
	return list
}

// drawPath is the path of a queue, its last element, or something that no cluster has.
func (w *World) drawPath() string {
	paths := []string{"root.a.a1", "root.a.a1", "root.a.a2", "root.a.a2", "root.b", "root.b", "root.users.u1", "root.users.u2", "root.c.a1", "root.a"}
	path := paths[w.rng.IntN(len(paths))]
	switch {
	case w.chance(3) && path != "root.users.u1" && path != "root.users.u2":
		return leaf(path)
	case w.chance(30):
		return "root.nowhere"
	}
	return path
}

// partsOf are the parts of an allocation as its message has them.
func partsOf(g *bursarv1.Allocation) (parts []resource.External) {
	for _, x := range g.GetEntitled().GetExternal() {
		v := amount{x.GetMemoryBytes(), x.GetCpuMillis(), x.GetCustom()[gpu]}.vector()
		at := resource.Address{Kind: x.GetKind(), Cluster: x.GetCluster(), Path: x.GetPath(), Partition: x.GetPartition()}
		parts = append(parts, resource.External{Address: at, Vector: v})
	}
	return parts
}

// submitAll starts the applications of an engine. They take what they were granted in a few steps,
// seldom more than that, and not always all of it or in the queue of the grant.
func (a *attempt) submitAll() {
	w := a.l.w
	for _, part := range a.parts {
		for range 1 + w.rng.IntN(5)/4 {
			steps := 1 + w.rng.Int64N(3)
			size := amountOf(part.Vector)
			for i := range size {
				size[i] /= steps
			}
			most := int(steps)
			switch w.rng.IntN(8) {
			case 0:
				most++
			case 1:
				most--
			}
			y, at := w.clusterOf(part.Cluster).current(), queueKey{part.Path, part.Partition}
			if !y.brief && w.chance(4) {
				at.partition = "" // else nobody could tell
			}
			app := y.submit(a, at, size, most)
			if app == nil {
				continue
			}
			w.tellf("%s: %s starts %s in %s@%s, up to %d times %d MiB", a.l.name, a.id, app.id, at.path, at.partition, most, size[0]/mib)
			a.apps = append(a.apps, app)
			if a.naming != untold {
				a.told = append(a.told, app.id)
			}
		}
	}
}

func (w *World) clusterOf(name string) *external {
	for _, e := range w.clusters {
		if e.name.Cluster == name {
			return e
		}
	}
	panic("sim: no cluster " + name)
}

// submitLater starts the applications of an engine that has not started them before its
// confirmation, and names them.
func (a *attempt) submitLater() {
	if a.naming != later && a.naming != untold || len(a.parts) == 0 {
		return
	}
	w := a.l.w
	most := 10 * time.Second
	if a.naming == untold {
		// What nobody is told must be there by then.
		most = settle * 4 / 5
	}
	w.after(w.between(0, most), "", func() {
		if a.gone() {
			return
		}
		a.submitAll()
		if a.naming == later && len(a.told) > 0 {
			w.after(w.between(0, 4*time.Second), "", func() { a.name(0) })
		}
	})
}

// name says which applications an engine has.
func (a *attempt) name(times int) {
	if a.gone() {
		return
	}
	command := a.confirmation()
	command.Entitled = nil
	a.host.agent.command(func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return l.Confirm(now, command)
	}, func(_ *bursarv1.Allocation, err error) {
		if err != nil && times < 20 {
			a.l.w.after(500*time.Millisecond, "", func() { a.name(times + 1) })
		}
	})
}

// confirmation is what an engine says of itself.
func (a *attempt) confirmation() ledger.ConfirmCommand {
	command := ledger.ConfirmCommand{Actor: a.command.Actor, HostID: a.host.id, ApplicationIDs: slices.Clone(a.told)}
	command.ID, _ = ledger.ParseID(a.id)
	if a.remote {
		return command
	}
	entitled := resource.Resource{Vector: a.l.w.zeros(resource.Vector{}.WithMemory(a.entitled))}
	command.Entitled = &entitled
	command.Process = ledger.Process{PID: a.process.pid, StartTime: a.process.start, BootID: a.host.bootID}
	// It will be content with half of a part.
	if len(a.parts) > 0 && len(a.apps) == 0 && a.l.w.chance(6) {
		half := amountOf(a.parts[0].Vector)
		half = amount{half[0] / 2, half[1] / 2, half[2]}
		at := a.parts[0].Address
		if a.l.w.chance(2) {
			at.Cluster, at.Path = "", leaf(at.Path)
		}
		entitled.External = []resource.External{{Address: at, Vector: half.vector()}}
	}
	return command
}

// resizePart asks for more of a part, or gives back some.
func (a *attempt) resizePart(id ledger.ID) {
	part := a.parts[a.l.w.rng.IntN(len(a.parts))]
	v := amountOf(part.Vector)
	v[0] = max(0, v[0]+(a.l.w.rng.Int64N(6)-2)*gib)
	part.Vector = v.vector()
	a.host.agent.command(func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return l.Resize(now, ledger.ResizeCommand{Actor: a.command.Actor, ID: id, Entitled: resource.NewResource(resource.Vector{}, part)})
	}, func(*bursarv1.Allocation, error) {})
}

// abandoned ends the applications of an engine that could not be confirmed: they are killed, or
// forgotten.
func (a *attempt) abandoned() {
	for _, app := range a.apps {
		if !app.survives {
			app.end()
		}
	}
}

// deserts reports whether its applications run alone: their engine has ended.
func (a *attempt) deserts() bool { return !a.remote && a.process != nil && a.gone() }

func (at queueKey) String() string {
	if at.partition == "" {
		return at.path
	}
	return fmt.Sprintf("%s@%s", at.path, at.partition)
}
