package yarn_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
	"github.com/bursar/bursar/test/yarn"
)

// system is a running bursar, with the commands of its users.
type system struct {
	binary         string
	address, agent string
	api            *client.Client
}

// buildBursar builds the binary for the length of a test.
func buildBursar(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "bursar")
	if err := (proc.Build{Into: binary}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return binary
}

// connect makes the client, once the addresses are known.
func (s *system) connect(t *testing.T) {
	t.Helper()
	api, err := client.New(s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	s.api = api
}

// said is the output of a command, and its exit code.
type said struct {
	code        int
	out, errors string
}

func (s said) String() string { return fmt.Sprintf("code %d\n%s%s", s.code, s.out, s.errors) }

// bursar runs a command to its end.
func (s *system) bursar(t *testing.T, arguments ...string) said {
	t.Helper()
	return s.command(t, t.TempDir(), arguments...).end()
}

// ok runs a command that must succeed, and returns its output.
func (s *system) ok(t *testing.T, arguments ...string) string {
	t.Helper()
	got := s.bursar(t, arguments...)
	if got.code != 0 {
		t.Fatalf("bursar %s: %s", strings.Join(arguments, " "), got)
	}
	return got.out
}

// fails runs a command that must end with an exit code, and with some words in its output.
func (s *system) fails(t *testing.T, code int, words []string, arguments ...string) {
	t.Helper()
	got := s.bursar(t, arguments...)
	if got.code != code {
		t.Errorf("bursar %s: want code %d, got %s", strings.Join(arguments, " "), code, got)
	}
	for _, word := range words {
		if !strings.Contains(got.out+got.errors, word) {
			t.Errorf("bursar %s: want %q, got %s", strings.Join(arguments, " "), word, got)
		}
	}
}

// command is a running command. It ends with the test at the latest.
type command struct {
	t           *testing.T
	dir         string
	process     *exec.Cmd
	out, errors proc.Output
	ended       chan struct{} // closed when it has ended
}

// command starts a command in a folder, with the binary in its path.
func (s *system) command(t *testing.T, dir string, arguments ...string) *command {
	t.Helper()
	c := &command{t: t, dir: dir, ended: make(chan struct{})}
	c.process = exec.Command(s.binary, arguments...)
	c.process.Dir = dir
	c.process.Env = []string{
		"PATH=" + filepath.Dir(s.binary) + ":" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=" + dir,
		"BURSAR_ADDR=" + s.address, "BURSAR_AGENT=" + s.agent,
	}
	c.process.Stdout, c.process.Stderr = &c.out, &c.errors
	if err := c.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		_ = c.process.Wait() // its exit code tells
	}()
	t.Cleanup(func() { c.stop(syscall.SIGTERM) })
	return c
}

// end waits for its end.
func (c *command) end() said {
	c.t.Helper()
	late := time.NewTimer(2 * time.Minute)
	defer late.Stop()
	select {
	case <-c.ended:
	case <-late.C:
		c.t.Errorf("%v has not ended: %s%s", c.process.Args, &c.out, &c.errors)
		c.stop(syscall.SIGKILL)
	}
	return said{c.process.ProcessState.ExitCode(), c.out.String(), c.errors.String()}
}

// stop signals it and waits for its end. It may be called for an ended one.
func (c *command) stop(signal syscall.Signal) {
	c.t.Helper()
	if err := c.process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Error(err)
	}
	c.end()
}

func (c *command) running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// startDev starts a coordinator and an agent in one process, which reads the clusters of a file.
func startDev(t *testing.T, binary, providers string) *system {
	t.Helper()
	dir := shortDir(t)
	s := &system{binary: binary, agent: filepath.Join(dir, "agent.sock")}
	dev := s.serve(t, dir, "dev", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data"), "--agent-socket", s.agent, "--providers", providers)
	yarn.Await(t, "bursar dev is up", func() bool {
		if !dev.running() {
			t.Fatalf("bursar dev has ended: %s", dev.end())
		}
		return strings.Contains(dev.out.String(), "  bursar explain")
	})
	for line := range strings.Lines(dev.out.String()) {
		if address, found := strings.CutPrefix(strings.TrimSpace(line), "coordinator "); found {
			s.address = strings.TrimSpace(address)
		}
	}
	s.connect(t)
	return s
}

// serve starts a server. Its output is shown if the test has failed, and is checked otherwise.
func (s *system) serve(t *testing.T, dir string, arguments ...string) *command {
	t.Helper()
	server := s.command(t, dir, arguments...)
	t.Cleanup(func() {
		server.stop(syscall.SIGTERM)
		printed := server.out.String() + server.errors.String()
		for _, fault := range append(server.out.Faults(), server.errors.Faults()...) {
			t.Errorf("bursar %s: %s", arguments[0], fault)
		}
		if t.Failed() {
			t.Logf("bursar %s said:\n%s", arguments[0], printed[max(0, len(printed)-6000):])
		}
	})
	return server
}

// shortDir returns a folder whose path is short enough for a socket in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bursar-system-") //nolint:usetesting // a test's own folder has a long path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// providersFile writes a file of providers: for each, the name of a cluster and its settings. The
// first one is the default.
func providersFile(t *testing.T, clusters ...[2]string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("providers:\n")
	for i, cluster := range clusters {
		fmt.Fprintf(&b, "  - kind: yarn\n    cluster: %s\n    default: %v\n    settings: {%s}\n", cluster[0], i == 0, cluster[1])
	}
	file := filepath.Join(t.TempDir(), "providers.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// queue returns a queue of the cluster called default, from the coordinator.
func (s *system) queue(t *testing.T, path string) *bursarv1.Queue {
	t.Helper()
	path, partition, _ := strings.Cut(path, "@")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	res, err := s.api.Queues().Get(ctx, &bursarv1.QueueServiceGetRequest{Kind: "yarn", Cluster: "default", Path: path, Partition: partition})
	if err != nil {
		t.Fatalf("queue %s: %v", path, err)
	}
	return res.GetQueue()
}

// figures formats the figures of a queue in MiB/cores: its limit, the use reported by the cluster,
// the ledger's own use and the use by others, and the available amount.
func figures(q *bursarv1.Queue) string {
	a := q.GetAccount()
	sum := func(parts ...*bursarv1.Resource) string {
		var memory, cpu int64
		for _, part := range parts {
			memory += part.GetMemoryBytes()
			cpu += part.GetCpuMillis()
		}
		return fmt.Sprintf("%d/%d", memory>>20, cpu/1000)
	}
	return fmt.Sprintf("limit %s used %s ours %s others %s available %s",
		sum(a.GetLimit()), sum(q.GetUsed()), sum(a.GetUsed(), a.GetReserved()), sum(a.GetUsedByOthers()), sum(q.GetAvailable()))
}

// awaitQueue waits until a queue has these figures. On the way there its available amount is never
// above the larger one of the first and the last.
func (s *system) awaitQueue(t *testing.T, path, want string) {
	t.Helper()
	most := max(s.queue(t, path).GetAvailable().GetMemoryBytes()>>20, availableOf(t, want))
	var got string
	deadline, again := time.After(time.Minute), time.NewTicker(50*time.Millisecond)
	defer again.Stop()
	for {
		q := s.queue(t, path)
		if free := q.GetAvailable().GetMemoryBytes() >> 20; free > most {
			t.Fatalf("%s has %d MiB to give, of at most %d: %s", path, free, most, figures(q))
		}
		if got = figures(q); got == want {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s\nwant %s\ngot  %s\n%s", path, want, got, s.bursar(t, "queues"))
		case <-again.C:
		}
	}
}

// availableOf returns the available memory in figures, in MiB.
func availableOf(t *testing.T, figures string) int64 {
	t.Helper()
	_, free, _ := strings.Cut(figures, "available ")
	var memory, cpu int64
	if _, err := fmt.Sscanf(free, "%d/%d", &memory, &cpu); err != nil {
		t.Fatalf("%q: %v", figures, err)
	}
	return memory
}

// allocation returns an allocation from the coordinator.
func (s *system) allocation(t *testing.T, id string) *bursarv1.Allocation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	res, err := s.api.Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: id})
	if err != nil {
		t.Fatalf("allocation %s: %v", id, err)
	}
	return res.GetAllocation()
}

// awaitReleased waits until an allocation is released.
func (s *system) awaitReleased(t *testing.T, id string) *bursarv1.Allocation {
	t.Helper()
	var now *bursarv1.Allocation
	yarn.Await(t, id+" is released", func() bool {
		now = s.allocation(t, id)
		return now.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_RELEASED
	})
	return now
}
