package callers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// Users of the machine, whom it knows by their numbers alone.
const (
	alice = 4712
	bob   = 4713
)

// host is a machine with an agent and the coordinator of a cluster, which has no other host.
type host struct {
	t                  *testing.T
	dir, socket        string
	address            string // of the coordinator
	coordinator, agent *proc.Process
	books              *client.Client // of the coordinator, as root
}

// newHost starts both, with their own defaults. The host gives away so many slots.
func newHost(t *testing.T, slots int) *host {
	t.Helper()
	dir, err := os.MkdirTemp("", "host") //nolint:usetesting // every user must get there, and the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	address := proc.Address(t)
	h := &host{t: t, dir: dir, socket: filepath.Join(dir, "agent.sock"), address: address}
	// No host becomes suspect because this machine is busy.
	h.write("coordinator.yaml", fmt.Sprintf("listen: %s\ndataDir: %s/data\ntimes: {suspectAfter: 30}\n", address, dir))
	h.write("agent.yaml", fmt.Sprintf("hostId: vm-1\nsocket: %s\nstateDir: %s/state\ncoordinators: [http://%s]\ntick: 1s\ncapacity: {slot: %d}\nengines: {cgroups: none, logDir: %[2]s/logs}\n",
		h.socket, dir, address, slots))
	if h.books, err = client.New(address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.books.Close)
	h.coordinator = h.start("coordinator")
	h.agent = h.start("agent")
	h.eventually("the host is healthy", func() error {
		status, err := h.status()
		if err == nil && status.GetHostsHealthy() != 1 {
			err = fmt.Errorf("%d healthy hosts", status.GetHostsHealthy())
		}
		return err
	})
	return h
}

func (h *host) write(name, content string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) start(name string) *proc.Process {
	h.t.Helper()
	p := proc.New(h.t, "bursar "+name, func() *exec.Cmd {
		cmd := exec.Command(program, name, "--config", filepath.Join(h.dir, name+".yaml"), "--log-format", "text", "--log-level", "warn")
		cmd.Env = proc.Environment()
		return cmd
	})
	p.Start()
	return p
}

// eventually waits for as long as that many programs may take to start on a busy machine.
func (h *host) eventually(what string, check func() error) {
	h.t.Helper()
	proc.Eventually(h.t, patience*time.Duration(1+*jobs/200), pollEvery, what, check)
}

func (h *host) status() (*bursarv1.StatusResponse, error) {
	return h.books.Cluster().Status(h.t.Context(), &bursarv1.StatusRequest{})
}

// as makes a command one of a user.
func (h *host) as(uid uint32, cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + filepath.Dir(program) + ":/usr/bin:/bin", "HOME=/", "BURSAR_AGENT=" + h.socket, "BURSAR_ADDR=127.0.0.1:1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return cmd
}

// run is a `bursar run` of a user that asks for a slot.
func (h *host) run(uid uint32, args ...string) *exec.Cmd {
	return h.as(uid, exec.Command(program, append([]string{"run", "--custom", "slot=1", "-l", "user=" + strconv.Itoa(int(uid))}, args...)...))
}

// waiting waits until so many requests wait.
func (h *host) waiting(number int) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("%d requests wait", number), func() error {
		status, err := h.status()
		if err == nil && status.GetWaiting() != int64(number) {
			err = fmt.Errorf("%d wait, %d are active, %d reserved", status.GetWaiting(), status.GetActive(), status.GetReserved())
		}
		return err
	})
}

// empty waits until nobody holds or waits for anything.
func (h *host) empty() {
	h.t.Helper()
	h.eventually("nothing is left behind", func() error {
		status, err := h.status()
		if err == nil && status.GetWaiting()+status.GetActive()+status.GetReserved() != 0 {
			err = fmt.Errorf("%d wait, %d are active, %d reserved", status.GetWaiting(), status.GetActive(), status.GetReserved())
		}
		return err
	})
}

// resident is what a process has in RAM, in bytes.
func resident(t *testing.T, p *proc.Process) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
