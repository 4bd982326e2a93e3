package agent_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// contain starts an engine that has a number in the caller's pid namespace, confirms it by that,
// twice, and says which pid that is to the agent. It goes on until the engine has ended, which it
// says, too.
func contain(ctx context.Context, client bursarv1connect.AllocationServiceClient, id, number string) (string, error) {
	want, err := strconv.Atoi(number)
	if err != nil {
		return "", err
	}
	engine, err := numbered(want)
	if err != nil {
		return "", err
	}
	own, err := os.ReadFile("/proc/" + number + "/cgroup")
	if err != nil {
		return "", err
	}
	_, cgroup, _ := strings.Cut(strings.Split(string(own), "\n")[0], "/")
	confirm := &bursarv1.ConfirmRequest{Id: id, Process: &bursarv1.Process{Pid: int32(want)}}
	switch os.Getenv("SAYS") {
	case "all":
		confirm.Process.Cgroup = "/" + cgroup
		fallthrough
	case "its start":
		confirm.Process.StartTime = startOf(want)
	}
	first, err := client.Confirm(ctx, confirm)
	if err != nil {
		return "", errors.Join(err, engine.Process.Kill())
	}
	if _, err := client.Confirm(ctx, confirm); err != nil {
		return "", fmt.Errorf("the same again: %w", err)
	}
	told := &bursarv1.ConfirmRequest{Id: id, Process: first.GetAllocation().GetProcess(), ApplicationIds: []string{"application_1_1"}}
	if _, err := client.Confirm(ctx, told); err != nil {
		return "", fmt.Errorf("as the agent tells of it: %w", err)
	}
	if _, err := fmt.Fprintln(os.Stdout, first.GetAllocation().GetProcess().GetPid()); err != nil {
		return "", err
	}
	return fmt.Sprint("ended: ", engine.Wait()), nil
}

// numbered starts an engine with a pid. Threads of this program may take it first.
func numbered(pid int) (*exec.Cmd, error) {
	for range 100 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			return nil, err
		}
		engine := exec.Command("sleep", "1000")
		if err := engine.Start(); err != nil {
			return nil, err
		}
		if engine.Process.Pid == pid {
			return engine, nil
		}
		if err := engine.Process.Kill(); err != nil {
			return nil, err
		}
		_ = engine.Wait()
	}
	return nil, fmt.Errorf("no process gets pid %d", pid)
}

// startOf is field 22 of /proc/PID/stat.
func startOf(pid int) uint64 {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	start, _ := strconv.ParseUint(strings.Fields(rest + strings.Repeat(" 0", 30))[19], 10, 64)
	return start
}

const nobodys = 4711

// container runs a caller in namespaces of its own and returns what it prints, line by line.
func (s *subject) container(uid int, unshare []string, call string, env ...string) *bufio.Scanner {
	s.t.Helper()
	cmd := exec.Command("unshare", append(unshare, "--kill-child", s.binary())...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), asCaller + "=" + s.config.Socket, "CALL=" + call}, env...)
	cmd.Dir, cmd.Stderr = "/", s.log
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return bufio.NewScanner(output)
}

// bystander is a process of a user that has nothing to do with any engine.
func bystander(t *testing.T, uid int) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// The bystander has the number on the host that the engine has in its container.
func TestEngineOfAContainerIsTheProcessThatItsCallerMeans(t *testing.T) {
	for name, test := range map[string]struct {
		uid     int
		unshare []string
		env     []string
	}{
		"pids":                    {0, []string{"-pf", "--mount-proc"}, nil},
		"pids, users and cgroups": {nobodys, []string{"-UrmCpf", "--mount-proc"}, []string{"SAYS=all"}},
		"pids below pids":         {0, []string{"-pf", "--mount-proc", "unshare", "-pf", "--mount-proc"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := run(t)
			a := s.allocate(100)
			other := bystander(t, test.uid)
			said := s.container(test.uid, test.unshare, fmt.Sprint("contain ", a.GetId(), " ", other.Process.Pid), test.env...)
			if !said.Scan() {
				t.Fatal(said.Err())
			}
			pid, err := strconv.Atoi(said.Text())
			if err != nil {
				t.Fatal(said.Text())
			}
			if pid == other.Process.Pid || zombie(pid) {
				t.Errorf("the engine is process %d of the host; the bystander is %d", pid, other.Process.Pid)
			}
			if got := s.coordinator.awaitState(a.GetId(), active).GetProcess(); int(got.GetPid()) != pid || got.GetStartTime() != startOf(pid) {
				t.Errorf("the ledger has %v, want process %d that started at %d", got, pid, startOf(pid))
			}
			if _, err := s.Stop(t.Context(), &bursarv1.StopRequest{Id: a.GetId(), Grace: durationpb.New(time.Minute), Reason: "enough"}); err != nil {
				t.Fatal(err)
			}
			if !said.Scan() || said.Text() != "ended: signal: terminated" {
				t.Errorf("%q, %v", said.Text(), said.Err())
			}
			if got := s.coordinator.awaitState(a.GetId(), released).GetReason(); got != "stopped: enough" {
				t.Errorf("reason %q", got)
			}
			if zombie(other.Process.Pid) {
				t.Error("the bystander was ended")
			}
		})
	}
}

func TestNumberOfNoProcessOfAContainerIsRefused(t *testing.T) {
	s := run(t)
	a := s.allocate(100)
	other := bystander(t, 0)
	said := s.container(0, []string{"-pf", "--mount-proc"}, fmt.Sprint("confirm ", a.GetId(), " ", other.Process.Pid))
	if !said.Scan() || !strings.HasPrefix(said.Text(), connect.CodeFailedPrecondition.String()) || !strings.Contains(said.Text(), "the caller's pid namespace") {
		t.Errorf("%q, %v", said.Text(), said.Err())
	}
	if zombie(other.Process.Pid) {
		t.Error("the bystander was ended")
	}
}

// A caller over TCP is the process that has the other end of the connection open.
func TestContainerOnLoopbackHasItsOwnNumbers(t *testing.T) {
	s := newSubject(t)
	s.startOnLoopback()
	a := s.allocate(100)
	other := bystander(t, 0)
	said := s.container(0, []string{"-pf", "--mount-proc"}, fmt.Sprint("contain ", a.GetId(), " ", other.Process.Pid), "SAYS=its start", "LOOPBACK=http://"+s.config.LoopbackListen)
	if !said.Scan() {
		t.Fatal(said.Err())
	}
	if pid, err := strconv.Atoi(said.Text()); err != nil || pid == other.Process.Pid || zombie(pid) {
		t.Errorf("the engine is process %q of the host; the bystander is %d", said.Text(), other.Process.Pid)
	}
}

func TestCallersOnLoopbackOfTheAgentsOwnNamespaceAreKnown(t *testing.T) {
	s := newSubject(t)
	s.startOnLoopback()
	client := bursarv1connect.NewAllocationServiceClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "http://"+s.config.LoopbackListen)
	for name, started := range map[string]func(pid int) uint64{"without its start": func(int) uint64 { return 0 }, "with its start": startOf} {
		a, engine := s.allocate(10), process(t, "exec sleep 1000")
		pid := engine.Process.Pid
		got, err := client.Confirm(t.Context(), &bursarv1.ConfirmRequest{Id: a.GetId(), Process: &bursarv1.Process{Pid: int32(pid), StartTime: started(pid)}})
		if err != nil || int(got.GetAllocation().GetProcess().GetPid()) != pid {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
