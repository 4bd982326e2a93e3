package host

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestProcessIsFoundByItsNumberInANamespace(t *testing.T) {
	meter, _ := realMeter(t, Options{})
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWCGROUP}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	view, err := meter.View(int32(cmd.Process.Pid))
	if err != nil || view.PIDs == nil || !view.OtherCgroups || view.OtherTime {
		t.Fatalf("%+v, %v", view, err)
	}
	defer view.PIDs.Close()
	for name, find := range map[string]func(pid int32) (int32, error){
		"by the kernel":        func(pid int32) (int32, error) { return view.PIDs.Find(t.Context(), pid) },
		"in the process table": func(pid int32) (int32, error) { return view.PIDs.search(t.Context(), pid) },
	} {
		if found, err := find(1); err != nil || int(found) != cmd.Process.Pid {
			t.Errorf("%s: its first process is %d, %v; want %d", name, found, err, cmd.Process.Pid)
		}
		if found, err := find(int32(cmd.Process.Pid)); !errors.Is(err, ErrNoProcess) {
			t.Errorf("%s: a number that nobody has there is that of %d, %v", name, found, err)
		}
	}
}

func TestProcessOfThisNamespaceSeesTheSameNumbers(t *testing.T) {
	meter, _ := realMeter(t, Options{})
	view, err := meter.View(int32(unix.Getpid()))
	if err != nil || view != (View{}) {
		t.Errorf("%+v, %v", view, err)
	}
	if err := view.PIDs.Close(); err != nil {
		t.Error(err)
	}
}

func TestPlaceSaysWhereThisProcessRuns(t *testing.T) {
	meter, _ := realMeter(t, Options{})
	first, second := meter.Place(), meter.Place()
	if first.PIDNamespace == "" || first.Uptime <= 0 || second.Uptime < first.Uptime {
		t.Errorf("%+v, then %+v", first, second)
	}
	nowhere := newMachine(t)
	other, err := NewMeter(Options{Root: nowhere.root})
	if err != nil {
		t.Fatal(err)
	}
	if place := other.Place(); place.MachineID != "" || place.Uptime != 0 {
		t.Errorf("of a machine without any of it: %+v", place)
	}
}
