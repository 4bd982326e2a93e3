package process

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/providers/host"
	"github.com/bursar/bursar/test/underrace"
)

// steps is the length of a walk. With rapid's 100 walks they are 11,000 in all, of which some do
// nothing: 10,000 that do are what invariant 11 asks for. With the race detector, with which a
// program takes long to start, walks and steps are fewer: make test-walk does without it.
const steps = 110 / underrace.Factor

// mostProcesses bounds how many processes there are at a time.
const mostProcesses = 20

// Invariant 11: whatever processes do between Confirm and Stop, nothing but descendants of the
// engine's root and members of its cgroup, of its user, is ever signalled.
func TestNobodyButTheEngineIsSignalledWhateverProcessesDo(t *testing.T) {
	o := openers(t)["pidfd"]
	if underrace.Factor > 1 {
		if err := flag.Set("rapid.checks", "25"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		w := walk{t: t, tree: newTestTree(t, o)}
		defer w.end()
		w.begin()
		for range steps {
			w.step()
		}
		w.stop()
	})
}

// walk is one engine, with bystanders, and what they do.
type walk struct {
	t      *rapid.T
	tree   *testTree
	cgroup testCgroup
	engine Engine
	root   *node
	handle *Handle
	meter  *host.Meter
	given  bool // the cgroup, by somebody else than the agent
}

func (w *walk) begin() {
	p, t := w.tree, w.t
	launcher := p.nodes[0]
	for _, uid := range []uint32{0, alice, bob} {
		p.fork(launcher, uid, false, false)
	}
	w.root = p.fork(launcher, rapid.SampledFrom([]uint32{alice, alice, 0}).Draw(t, "user"), true, rapid.Bool().Draw(t, "leads a session"))
	w.engine = p.root(w.root)
	if kind := rapid.SampledFrom([]string{"none", "its own", "guarded"}).Draw(t, "cgroup"); kind != "none" {
		w.cgroup = newCgroup(t, fmt.Sprintf("bursar-test-walk-%d", os.Getpid()))
		w.engine.Cgroup, w.engine.Guarded = w.cgroup.name, kind == "guarded"
		p.move(w.cgroup, w.root, true)
	}
	w.given = w.cgroup.name != "" && !w.engine.Guarded
	var err error
	if w.meter, err = host.NewMeter(host.Options{}); err != nil {
		t.Fatal(err)
	}
	if w.handle, err = p.o.Open(w.root.ref); err != nil {
		t.Fatal(err)
	}
}

func (w *walk) end() {
	w.tree.close()
	if w.cgroup.name != "" {
		w.cgroup.remove()
	}
}

func (w *walk) step() {
	p, t := w.tree, w.t
	var alive []*node
	for _, n := range p.nodes {
		if n.alive {
			alive = append(alive, n)
		}
	}
	n := rapid.SampledFrom(alive).Draw(t, "who")
	deeds := []string{"setsid", "setpgid", "exec", "become", "exit", "enter", "leave", "tick"}
	if len(alive) < mostProcesses {
		deeds = append(deeds, "fork", "fork", "fork", "fork", "succeed")
	}
	switch deed := rapid.SampledFrom(deeds).Draw(t, "does"); deed {
	case "fork":
		p.fork(n, n.uid, rapid.Bool().Draw(t, "heeds"), rapid.Bool().Draw(t, "setsid"))
	case "succeed": // one that has ended, by its number: the root, if it has
		i := slices.IndexFunc(p.nodes[1:], func(n *node) bool { return !n.alive })
		if i < 0 {
			return
		}
		before := p.nodes[1:][i]
		if !w.root.alive {
			before = w.root
		}
		numberNext(t, before.ref.PID)
		p.fork(n, n.uid, false, true)
	case "exit":
		if n != p.nodes[0] {
			p.tells(n, deed)
		}
	case "setpgid":
		p.tells(n, fmt.Sprintf("setpgid %d", rapid.SampledFrom(alive).Draw(t, "of").ref.PID))
	case "become":
		n.uid = rapid.SampledFrom([]uint32{0, alice, bob}).Draw(t, "uid")
		p.tells(n, fmt.Sprintf("become %d", n.uid))
	case "enter", "leave":
		if w.cgroup.name != "" {
			p.move(w.cgroup, n, deed == "enter")
		}
	case "tick":
		w.handle.Touch()
		w.measure()
	default:
		p.tells(n, deed)
	}
}

// measure has the meter say what has left the tree.
func (w *walk) measure() {
	w.engine.Descendants, w.engine.Measured = nil, nil
	e := host.Engine{ID: "e", PID: w.root.ref.PID, StartTime: w.root.ref.StartTime, Cgroup: w.engine.Cgroup, Given: w.given, User: w.engine.User}
	for _, orphan := range w.meter.Engines(w.t.Context(), []host.Engine{e})[0].Orphans {
		ref := Ref{PID: orphan.PID, StartTime: orphan.StartTime}
		if orphan.Descends {
			w.engine.Descendants = append(w.engine.Descendants, ref)
		} else {
			w.engine.Measured = append(w.engine.Measured, ref)
		}
	}
}

// may reports whether a process may be signalled.
func (w *walk) may(n *node) bool {
	own := n.uid == *w.engine.User
	switch {
	case n.inside && w.engine.Guarded:
		return true
	case n.descends:
		return own || *w.engine.User == 0
	default:
		return n.inside && own && *w.engine.User != 0
	}
}

// must reports whether a process is seen to be the engine's now: there are none between it and the
// root that have ended, or it is inside.
func (w *walk) must(n *node) bool {
	if !n.alive || !w.may(n) {
		return false
	}
	for up := n; up != nil && up.alive; up = up.parent {
		if up == w.root {
			return true
		}
	}
	return n.inside && n != w.tree.nodes[0] && (*w.engine.User != 0 || w.engine.Guarded)
}

func (w *walk) stop() {
	p, t := w.tree, w.t
	w.engine.LastAlive = w.handle.LastAlive()
	w.handle.Close()
	var left *LeftError
	if err := p.o.Stop(t.Context(), w.engine, 20*time.Millisecond); err != nil && !errors.As(err, &left) {
		t.Fatal(err)
	}
	for _, n := range slices.DeleteFunc(slices.Clone(p.nodes), func(n *node) bool { return !n.alive }) {
		h, err := p.o.Open(n.ref)
		if err == nil {
			h.Close()
		}
		signalled := p.signalled(n)
		if got := err != nil || signalled != ""; got && !w.may(n) {
			t.Errorf("%v was signalled (%q), of an engine %+v", n, signalled, w.engine)
		}
		if err == nil && w.must(n) {
			t.Errorf("%v was left, of an engine %+v", n, w.engine)
		}
	}
}
