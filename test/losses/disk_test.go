package losses

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// While the disk with the agent's state is full or read-only, engines go on, are measured,
// reported and released, and an agent that is killed comes back. What cannot be remembered is not
// started.
func TestDiskOfTheStateIsFull(t *testing.T) {
	if !isolated(t, 0) {
		return
	}
	state := t.TempDir()
	if err := unix.Mount("state", state, "tmpfs", 0, "size=256k,mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(state, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	p := startPlace(t, settings{state: state})
	for _, fault := range []struct {
		name, prefix string
		spoil, mend  func() error
	}{
		{"is full", "full-", func() error { return fill(filepath.Join(state, "filler")) }, func() error { return os.Remove(filepath.Join(state, "filler")) }},
		{"can only be read", "read-", func() error { return readOnly(state) }, func() error { return unix.Unmount(state, unix.MNT_DETACH) }},
	} {
		t.Log(fault.name)
		engines := p.three(fault.prefix)
		ending, later := p.launched(fault.prefix+"ending"), p.launched(fault.prefix+"later")
		all := append([]*engine{ending, later}, engines...)
		p.right(all)
		never := p.prepare(fault.prefix + "never")
		never.id = p.allocate(never.labels()).GetId()
		if err := fault.spoil(); err != nil {
			t.Fatal(err)
		}

		if err := p.launch(t.Context(), never); err == nil {
			t.Errorf("an engine was launched that would be forgotten")
		}
		if all := never.processes(); len(all) > 0 {
			t.Errorf("processes %d were started and go on", all)
		}
		if _, err := p.local.Allocations().Release(t.Context(), &bursarv1.ReleaseRequest{Id: never.id}); err != nil {
			t.Error(err)
		}
		ending.end(3, "with a disk that "+fault.name)
		p.endedWith(ending, 3, "about to end\nwith a disk that "+fault.name)
		p.right(without(all, ending))

		p.agent.Kill()
		p.startAgent()
		p.right(without(all, ending))
		later.end(4, "with a disk that "+fault.name)
		p.endedWith(later, 4, "about to end\nwith a disk that "+fault.name)
		p.right(engines)

		if err := fault.mend(); err != nil {
			t.Fatal(err)
		}
		p.agent.Kill()
		p.startAgent()
		p.right(engines)
		for _, e := range engines {
			e.end(0, "")
			p.ended(e)
		}
		p.right(nil)
	}
}

// readOnly prevents all writing below a path, except to files that are open, such as a keeper's
// record.
func readOnly(path string) error {
	if err := unix.Mount(path, path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if err := unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("read-only: %w", err)
	}
	return nil
}

// fill writes until there is no room.
func fill(name string) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_SYNC, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	for block := make([]byte, 512); ; {
		if _, err := file.Write(block); errors.Is(err, unix.ENOSPC) {
			return nil
		} else if err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
}
