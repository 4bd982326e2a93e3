package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Whose a process is, is read again at the moment of the kill: it may have become another user's
// since it was asked to end. Its child, which is still of the engine's user, is killed.
func TestStopDoesNotKillWhatBecomesAnotherUsersInTheGrace(t *testing.T) {
	for name, o := range openers(t) {
		t.Run(name, func(t *testing.T) {
			p := newTestTree(t, o)
			defer p.close()
			root := p.fork(p.nodes[0], alice, false, true)
			child := p.fork(root, alice, false, false)
			e := p.root(root)
			stopped := make(chan error, 1)
			const grace = 3 * time.Second
			go func() { stopped <- o.Stop(t.Context(), e, grace) }()
			for p.signalled(root) == "" {
				runtime.Gosched()
			}
			p.tells(root, fmt.Sprintf("become %d", bob))
			var left *LeftError
			if err := <-stopped; !errors.As(err, &left) || !slices.Equal(left.Foreign, []int32{root.ref.PID}) {
				t.Errorf("%v, want it to name the root, %d", err, root.ref.PID)
			}
			if !running(t, o, root.ref) {
				t.Error("another user's process was killed")
			}
			if running(t, o, child.ref) {
				t.Error("the child, which is the engine's, was left")
			}
		})
	}
}

// The same, right before the signal: after the last look at all processes.
func TestASignalIsPrecededByALookAtWhomItGoesTo(t *testing.T) {
	for name, change := range map[string]func(p *testTree, cgroup testCgroup, n *node){
		"it becomes another user's": func(p *testTree, _ testCgroup, n *node) { p.tells(n, fmt.Sprintf("become %d", bob)) },
		"it leaves the cgroup":      func(p *testTree, cgroup testCgroup, n *node) { p.move(cgroup, n, false) },
		"nothing":                   nil,
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestTree(t, openers(t)["pidfd"])
			cgroup := newCgroup(t, fmt.Sprintf("bursar-test-grace-%d", os.Getpid()))
			defer cgroup.remove()
			defer p.close()
			root, member := p.fork(p.nodes[0], alice, false, true), p.fork(p.nodes[0], alice, false, true)
			e := p.root(root)
			e.Cgroup = cgroup.name
			for _, n := range []*node{root, member} {
				p.move(cgroup, n, true)
			}
			s := stopper{opener: p.o, engine: e, descent: newDescent(e), handles: make(map[Ref]*target)}
			defer s.close()
			if err := s.find(t.Context()); err != nil {
				t.Fatal(err)
			}
			h := s.handles[member.ref]
			if h == nil {
				t.Fatal("who is inside was not found")
			}
			if change != nil {
				change(p, cgroup, member)
			}
			if err := s.signal(h, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if change == nil {
				gone(t, p.o, member.ref)
				return
			}
			p.tells(member, "setpgid 0") // one that is killed does nothing any more
		})
	}
}
