package sim

import (
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// probeQueue is a queue that every cluster gets when the world is at rest, to see whether a wait
// for it ends.
const probeQueue = "root.probe"

// rest makes nothing happen any more except what a probe of each cluster causes.
func (w *World) rest() {
	w.tellf("the clusters come to rest")
	w.resting = true
	w.reopen() // what an operator did meanwhile may have come late
	for _, e := range w.clusters {
		y := e.current()
		if e.fixed {
			y = e.yarns[0]
		}
		root := y.queues["root"]
		limit := root.limits[""]
		limit.most = amount{1 << 50, 1 << 40, 1 << 20}
		root.limits[""] = limit
		q := y.add(probeQueue)
		q.limits[""] = ceiling{most: amount{4 * gib, 0, 0}, listed: [len(dimensions)]bool{true, false, false}}
		other := y.submit(nil, queueKey{probeQueue, ""}, amount{4 * gib, 0, 0}, 1)
		if !other.grow() {
			w.failf(0, "%s: the probe's queue has no room for it", y.address)
			return
		}
		p := &prober{w: w, e: e, y: y, link: w.newLink("prober-" + e.name.Cluster)}
		w.probes = append(w.probes, p)
		w.after(10*time.Second, "", func() { p.ask("one") })
		w.after(15*time.Second, "", func() {
			if p.granted > 0 {
				w.failf(1, "%s: the probe was granted in a full queue", e.name)
			}
			other.end()
		})
	}
}

// probeLabels are those of all probes.
func probeLabels() label.Set { return label.Of("user", "probe", "team", "probe") }

// prober waits for a queue that others have filled until they leave, uses it, and then waits for
// as much again until the cluster shows its use.
type prober struct {
	w       *World
	e       *external
	y       *yarn
	link    *link
	granted int
}

func (p *prober) ask(request string) {
	w := p.w
	command := ledger.AllocateCommand{
		Actor: identity.Actor{Name: p.link.name, Anyone: true}, RequestID: p.link.name + "-" + request, RequestHash: 1,
		Labels: probeLabels(), Wait: 40 * time.Second,
		Resource: resource.NewResource(resource.Vector{}.WithMemory(0).WithCPU(0), resource.External{
			Address: resource.Address{Kind: p.e.name.Kind, Cluster: p.e.name.Cluster, Path: probeQueue},
			Vector:  resource.Vector{}.WithMemory(4 * gib),
		}),
	}
	w.tellf("%s asks for %s", p.link.name, request)
	p.link.call(command.Wait, func(c *coord, reply func(answer)) func() { return c.allocate(command, reply) }, func(value any) {
		r, ok := value.(answerTo)
		if !ok || r.err != nil || r.allocation.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED {
			w.failf(7, "%s: %s was not granted: %v %s", p.link.name, request, r.err, r.allocation.GetState())
			return
		}
		p.granted++
		if request == "one" {
			p.use(r.allocation.GetId())
		}
	})
}

// use uses the grant in the cluster at once, doubles the queue, and asks for the other half.
func (p *prober) use(id string) {
	w := p.w
	q := p.y.queues[probeQueue]
	limit := q.limits[""]
	limit.most[0] *= 2
	q.limits[""] = limit
	app := p.y.submit(&attempt{id: id, command: ledger.AllocateCommand{Labels: probeLabels()}, remote: true}, queueKey{probeQueue, ""}, amount{4 * gib, 0, 0}, 1)
	if app == nil || !app.grow() {
		w.failf(7, "%s has no room for what was granted in %s", p.y.address, probeQueue)
		return
	}
	number, _ := ledger.ParseID(id)
	p.link.insist(func(c *coord, reply func(answer)) func() {
		c.on(reply, func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
			return l.Confirm(now, ledger.ConfirmCommand{
				Actor: identity.Actor{Name: p.link.name, Anyone: true}, ID: number, ApplicationIDs: []string{app.id},
			})
		})
		return nil
	}, func() { p.ask("two") })
}

// checkProbes holds that the probes were granted what they waited for.
func (w *World) checkProbes() {
	for _, n := range w.probes {
		if n.granted < 2 {
			w.failf(7, "%s was granted %d of 2", n.link.name, n.granted)
		}
	}
}
