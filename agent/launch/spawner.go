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

// keeperPath is all of a keeper's own environment.
const keeperPath = "PATH=/usr/local/bin:/usr/bin:/bin"

// keeperEnvironment is the whole environment that a keeper is started with: nothing of the
// agent's.
func keeperEnvironment() []string { return []string{keeperPath} }

// keeperUmask is what a keeper and its engine begin with.
const keeperUmask = 0o022

// Spawn is a keeper to be started: for its user and with that user's groups, in a new session, in
// "/", with keeperEnvironment and keeperUmask, and with these three descriptors and no others.
type Spawn struct {
	// ID is the allocation.
	ID   string
	User osuser.User
	// Stdin, Stdout and Record are the keeper's descriptors 0, 1 and 2. They stay the caller's to
	// close.
	Stdin, Stdout, Record *os.File
	// Keeper is the path of the program. Its last argument is ID, which shows in the process
	// table. Mode is the one before; empty: there is none.
	Keeper, Mode string
	// Limits are those of the engine's cgroup. Nil: it needs none of its own.
	Limits *cgroup.Limits
}

// command is the program and its arguments.
func (s Spawn) command() []string {
	if s.Mode == "" {
		return []string{s.Keeper, s.ID}
	}
	return []string{s.Keeper, s.Mode, s.ID}
}

// Spawned is a keeper that has started.
type Spawned struct {
	// PID is the keeper's, which is not the engine's. The pid stays the keeper's until its end was
	// waited for.
	PID int32
	// Cgroup is the engine's own, as a bursarv1.Process has it; empty: it has none.
	Cgroup string
}

// Spawner starts keepers. It may be used by several goroutines at once.
type Spawner interface {
	// Spawn starts a keeper and returns at once. If it fails, nothing runs.
	Spawn(ctx context.Context, s Spawn) (Spawned, error)
}

// Direct is a Spawner whose keepers are children of this process, in its cgroup. It must not be
// copied after its first use.
type Direct struct {
	mu       sync.Mutex
	children []*os.Process // guarded by mu; their end was not waited for yet
}

var _ Spawner = (*Direct)(nil)

// Spawn starts a keeper. The caller may still move it to a cgroup: it waits for its spec.
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

// Reap removes keepers that have ended from the process table. It never waits for others.
func (d *Direct) Reap() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.children = slices.DeleteFunc(d.children, func(child *os.Process) bool {
		var info unix.Siginfo
		err := ignoringEINTR(func() error {
			return unix.Waitid(unix.P_PID, child.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		})
		if err == nil && info.Signo == 0 {
			return false // it runs
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
