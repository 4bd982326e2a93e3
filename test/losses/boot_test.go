package losses

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// After a boot nothing that ran before still runs: a process with an engine's pid, which started
// at the same time after the boot, is another one. It is neither counted nor ended, and the ledger
// are empty.
func TestHostBoots(t *testing.T) {
	if !isolated(t, 0) {
		return
	}
	p := startPlace(t, settings{})
	engines := p.three("")
	ending := p.launched("ending")
	p.right(append(engines, ending))
	p.agent.Kill()
	ending.end(3, "the power fails")
	// What is to be stopped before the boot is not what runs after it.
	for _, e := range engines {
		if _, err := p.remote.Allocations().Stop(t.Context(), &bursarv1.StopRequest{Id: e.id, Reason: "out of the way"}); err != nil {
			t.Fatal(err)
		}
	}
	for file, content := range map[string]string{"sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555\n", "uptime": "0.01 0.00\n"} {
		if err := unix.Mount(p.write(filepath.Base(file), content), "/proc/"+file, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	p.startAgent()
	for _, e := range append(engines, ending) {
		if end := p.ended(e); end.GetReason() != "host rebooted" && e != ending {
			t.Errorf("engine %s ended for %q", e.name, end.GetReason())
		}
	}
	always(t, 3*tick, "with the next boot", func() error { return undisturbed(engines) })
	if err := p.has(nil); err != nil {
		t.Error(err)
	}
	later := p.launched("later")
	p.right([]*engine{later})
	if err := undisturbed(engines); err != nil {
		t.Error(err)
	}
}

// The kernel reuses a pid when its process has ended: the new process is neither counted nor
// ended, whether its agent was there or not, and whether the engine was to be stopped or not.
func TestPidsAreGivenOutAgain(t *testing.T) {
	if !isolated(t, unix.CLONE_NEWPID) {
		return
	}
	p := startPlace(t, settings{})
	stays := p.confirmed("stays")
	var strangers []*exec.Cmd
	for _, away := range []bool{false, true} {
		for name, begin := range map[string]func(string) *engine{"launched": p.launched, "confirmed": p.confirmed} {
			e := begin(fmt.Sprint(name, "-", away))
			p.right([]*engine{stays, e})
			if away {
				p.agent.Kill()
				if _, err := p.remote.Allocations().Stop(t.Context(), &bursarv1.StopRequest{Id: e.id, Reason: "out of the way"}); err != nil {
					t.Fatal(err)
				}
			}
			e.send("exit 6 pid")
			strangers = append(strangers, occupy(t, e.pid))
			if away {
				p.startAgent()
			}
			if name == "launched" {
				p.endedWith(e, 6, "about to end\npid")
			} else {
				p.ended(e)
			}
			p.right([]*engine{stays})
		}
	}
	always(t, 2*tick, "with their pids", func() error {
		for _, s := range strangers {
			if !proc.Alive(s.Process.Pid) {
				return fmt.Errorf("process %d was ended", s.Process.Pid)
			}
		}
		return nil
	})
	if measured := p.host().GetEnginesMeasured().GetMemoryBytes(); measured >= 2*engineMemory*mib {
		t.Errorf("engines are measured to use %d bytes", measured)
	}
}

// occupy waits until a pid is free and starts a process that has it. It holds more memory than an
// engine may.
func occupy(t *testing.T, pid int) *exec.Cmd {
	t.Helper()
	orders := filepath.Join(t.TempDir(), "stranger")
	if err := unix.Mkfifo(orders+".do", 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(orders+".do", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipe.Close() })
	if _, err := fmt.Fprintln(pipe, "hold", 2*engineMemory); err != nil {
		t.Fatal(err)
	}
	var cmd *exec.Cmd
	eventually(t, fmt.Sprint("another process has pid ", pid), func() error {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			return errors.New("the engine has it")
		}
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd = exec.Command(os.Args[0])
		cmd.Env = proc.Environment(engineVariable + "=" + orders)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if cmd.Process.Pid == pid {
			return nil
		}
		err := fmt.Errorf("it went to %d", cmd.Process.Pid)
		_, _ = cmd.Process.Kill(), cmd.Wait()
		return err
	})
	return cmd
}
