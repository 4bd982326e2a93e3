package process

import (
	"syscall"
	"testing"
)

// A process may end by itself between the look at it and the first signal. The agent panicked then:
// the second signal gave its place up once more.
func TestAProcessThatEndsBeforeItIsAskedToIsGivenUpOnce(t *testing.T) {
	for name, o := range openers(t) {
		c := start(t, o, "echo $$;"+endsWhen)
		handle, err := o.Open(c.saysPID(t, o))
		if err != nil {
			t.Fatal(err)
		}
		if !o.slots.acquire(t.Context(), false) {
			t.Fatal("there is no slot")
		}
		free := len(o.slots)
		root := &target{Handle: handle}
		s := stopper{opener: o, engine: Engine{Root: c.ref}, handles: map[Ref]*target{c.ref: root}}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Process.Release()
		_, _ = syscall.Wait4(c.Process.Pid, nil, 0, nil)
		if err := s.ask(root); err != nil || len(s.handles) != 0 || len(o.slots) != free+1 {
			t.Errorf("%s: %v, %d handles, %d slots more", name, err, len(s.handles), len(o.slots)-free)
		}
	}
}
