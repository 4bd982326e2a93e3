package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/internal/osuser"
)

// keeperPath is the only variable of a keeper's environment.
const keeperPath = "PATH=/usr/local/bin:/usr/bin:/bin"

// keeperEnvironment returns a keeper's whole environment, which has no variable of the agent's.
func keeperEnvironment() []string { return []string{keeperPath} }

// keeperUmask is the umask with which a keeper and its engine begin.
const keeperUmask = 0o022

// Spawn describes a keeper to start. It starts for its user and with that user's groups, in a new
// session, in "/", with keeperEnvironment and keeperUmask, and with only these three descriptors.
type Spawn struct {
	// ID is the id of the allocation.
	ID   string
	User osuser.User
	// Stdin, Stdout and Record are the keeper's descriptors 0, 1 and 2. The caller closes its own
	// copies.
	Stdin, Stdout, Record *os.File
	// Keeper is the path of the program. Its last argument is ID, which shows in the process table.
	// Mode is the argument before it; empty means none.
	Keeper, Mode string
	// Limits are the limits of the engine's cgroup. Nil if it needs no cgroup of its own.
	Limits *cgroup.Limits
}

// command returns the program and its arguments.
func (s Spawn) command() []string {
	if s.Mode == "" {
		return []string{s.Keeper, s.ID}
	}
	return []string{s.Keeper, s.Mode, s.ID}
}

// Spawned is a keeper that has started.
type Spawned struct {
	// PID is the keeper's pid, not the engine's. The kernel does not reuse it until the parent has
	// waited for the keeper's end.
	PID int32
	// Cgroup is the engine's own cgroup, as in bursarv1.Process; empty if it has none.
	Cgroup string
}

// Spawner starts keepers. It is safe for concurrent use.
type Spawner interface {
	// Spawn starts a keeper and returns at once. If it fails, no process is left.
	Spawn(ctx context.Context, s Spawn) (Spawned, error)
}

// Direct is a Spawner whose keepers are children of this process, in this process's cgroup. It must
// not be copied after first use.
type Direct struct {
	mu       sync.Mutex
	children []*os.Process // guarded by mu; not yet waited for
}

var _ Spawner = (*Direct)(nil)

// Spawn starts a keeper. The keeper waits for its spec, so the caller may still move it to a
// cgroup.
func (d *Direct) Spawn(_ context.Context, s Spawn) (Spawned, error) {
	attributes := &os.ProcAttr{
		Dir: "/", Env: append(keeperEnvironment(), user(s.User)...), Files: []*os.File{s.Stdin, s.Stdout, s.Record},
		Sys: &syscall.SysProcAttr{Setsid: true},
	}
	child, err := os.StartProcess(s.Keeper, s.command(), attributes)
	if err != nil {
		return Spawned{}, fmt.Errorf("start keeper: %w", err)
	}
	d.mu.Lock()
	d.children = append(d.children, child)
	d.mu.Unlock()
	return Spawned{PID: int32(child.Pid)}, nil //nolint:gosec // a pid
}

// Reap waits for the keepers that have ended, so that they leave the process table. It never
// blocks.
func (d *Direct) Reap() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.children = slices.DeleteFunc(d.children, func(child *os.Process) bool {
		var info unix.Siginfo
		err := ignoringEINTR(func() error {
			return unix.Waitid(unix.P_PID, child.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		})
		if err == nil && info.Signo == 0 {
			return false // it still runs
		}
		_, _ = child.Wait() // at once; how it ended says nothing about the engine
		return true
	})
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
