package process

import (
	"slices"
	"testing"
)

// A child that begins a session of its own is in no tree of the engine's once its parent has ended.
// Who has seen before whose child it is can say so.
func TestStopEndsWhatWasSeenToDescendFromTheRoot(t *testing.T) {
	for name, c := range map[string]struct {
		known    func(e *Engine, child Ref)
		uid      uint32
		ends     bool
		foreign  bool
		unproven bool
	}{
		"nobody has seen it":                  {known: func(*Engine, Ref) {}, uid: alice},
		"seen as a descendant":                {known: func(e *Engine, child Ref) { e.Descendants = []Ref{child} }, uid: alice, ends: true},
		"seen as a descendant, another's now": {known: func(e *Engine, child Ref) { e.Descendants = []Ref{child} }, uid: bob, foreign: true},
		"counted as the engine's":             {known: func(e *Engine, child Ref) { e.Measured = []Ref{child} }, uid: alice, unproven: true},
		"counted, of another user":            {known: func(e *Engine, child Ref) { e.Measured = []Ref{child} }, uid: bob, foreign: true},
		"another of its pid was seen": {known: func(e *Engine, child Ref) {
			child.StartTime--
			e.Descendants, e.Measured = []Ref{child}, []Ref{child}
		}, uid: alice},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestTree(t, openers(t)["pidfd"])
			defer p.close()
			root := p.fork(p.nodes[0], alice, true, true)
			e := p.root(root)
			child := p.fork(root, c.uid, false, true)
			below := p.fork(child, c.uid, false, false)
			p.tells(root, "exit")
			c.known(&e, child.ref)
			left := stopAlone(t, p.o, e)
			if running(t, p.o, child.ref) == c.ends || running(t, p.o, below.ref) == c.ends {
				t.Errorf("runs: %t, and its own child: %t", running(t, p.o, child.ref), running(t, p.o, below.ref))
			}
			if slices.Contains(left.Foreign, child.ref.PID) != c.foreign || slices.Contains(left.Unproven, child.ref.PID) != c.unproven {
				t.Errorf("left: %+v", left)
			}
		})
	}
}

// All that is in a cgroup of the agent's is counted as the engine's. If others can write to it, not
// all of it is the engine's for sure.
func TestStopNamesWhomItLeavesInACgroupThatIsCounted(t *testing.T) {
	p := newTestTree(t, openers(t)["pidfd"])
	cgroup := newCgroup(t, "bursar-test-process-counted")
	defer cgroup.remove()
	defer p.close()
	engine := p.fork(p.nodes[0], alice, true, true)
	e := p.root(engine)
	e.Cgroup = cgroup.name
	stranger := p.fork(p.nodes[0], bob, false, true)
	for _, n := range []*node{engine, stranger} {
		p.move(cgroup, n, true)
	}
	if left := stopAlone(t, p.o, e); len(left.Foreign) > 0 {
		t.Errorf("of a cgroup that another has made: left %+v", left)
	}
	e.Made = true
	if left := stopAlone(t, p.o, e); !slices.Equal(left.Foreign, []int32{stranger.ref.PID}) {
		t.Errorf("left: %+v", left)
	}
}
