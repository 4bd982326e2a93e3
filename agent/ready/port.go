package ready

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/process"
)

const (
	// relistAfter is how long it may take until a process is seen that is the first of its engine
	// in another network namespace.
	relistAfter = 2 * time.Second
	// maxProcesses, maxNamespaces, maxThreads and maxDescriptors bound one look.
	maxProcesses   = 4096
	maxNamespaces  = 16
	maxThreads     = 64
	maxDescriptors = 1 << 16
)

// portProbe looks whether a process of an engine listens on a port.
type portProbe struct {
	watcher *Watcher
	engine  Engine
	port    int32

	// refs are the engine's processes as last listed.
	refs   []process.Ref
	listed time.Time
}

// look reads the tables of the engine's network namespaces first, which it shares with others, and
// the open files of its processes only if the port is listened on.
func (p *portProbe) look(ctx context.Context) (finding, error) {
	p.watcher.looking.Lock()
	defer p.watcher.looking.Unlock()
	began := time.Now()
	found, err := p.lookAlone(ctx, began)
	found.cost = time.Since(began)
	switch {
	case errors.Is(err, process.ErrEnded):
		found.reason = portReason(p.port)
	case err != nil:
		found.reason, err = err.Error(), nil
	case !found.ready && found.reason == "":
		found.reason = portReason(p.port)
	}
	return found, err
}

func (p *portProbe) lookAlone(ctx context.Context, now time.Time) (finding, error) {
	fresh := now.Sub(p.listed) >= relistAfter || len(p.refs) == 0
	if fresh {
		if err := p.list(now); err != nil {
			return finding{}, err
		}
	}
	inodes, some, err := p.listeners()
	if !fresh && (!some || len(inodes) > 0) {
		if err := p.list(now); err != nil {
			return finding{}, err
		}
		inodes, _, err = p.listeners()
	}
	if err != nil || len(inodes) == 0 {
		return finding{}, err
	}
	return p.find(ctx, inodes)
}

// list lists the engine's processes.
func (p *portProbe) list(now time.Time) error {
	root := p.engine.Reaper
	if root.PID == 0 {
		root = p.engine.Root
	}
	p.watcher.counts.lists.Add(1)
	refs, err := process.Descendants(p.watcher.deps.Proc, root)
	if err != nil {
		return err //nolint:wrapcheck // says all
	}
	refs = slices.DeleteFunc(refs, func(ref process.Ref) bool { return ref == p.engine.Reaper })
	p.refs, p.listed = refs[:min(len(refs), maxProcesses)], now
	return nil
}

// listeners are the inodes of the sockets that listen on the port, in all network namespaces of the
// engine. some: there is a process as listed.
func (p *portProbe) listeners() (inodes map[uint64]bool, some bool, err error) {
	inodes = make(map[uint64]bool)
	seen := make(map[string]bool)
	var last error
	for _, ref := range p.refs {
		folder, namespace, err := p.namespace(ref.PID)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				last = err
			}
			continue
		}
		if seen[namespace] {
			continue
		}
		if len(seen) == maxNamespaces {
			break
		}
		seen[namespace] = true
		found, err := p.watcher.tables.listeners(namespace, folder, uint16(p.port)) //nolint:gosec // checked
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EINVAL) {
			last = err // else it has ended
		}
		for _, inode := range found {
			inodes[inode] = true
		}
	}
	if len(inodes) == 0 {
		return nil, len(seen) > 0, last
	}
	return inodes, true, nil
}

// namespace is the network namespace of a process, and a folder in the process table that shows it.
// If the first thread has ended, the kernel shows it of another one, and denies that of the first
// one to all but root.
func (p *portProbe) namespace(pid int32) (folder, name string, err error) {
	for folder := range threads(p.watcher.deps.Proc, pid) {
		if name, err = os.Readlink(filepath.Join(p.watcher.deps.Proc, folder, "ns/net")); err == nil {
			return folder, name, nil
		}
	}
	return "", "", err
}

// threads yields the folder of a process and, if the caller goes on, those of its threads.
func threads(proc string, pid int32) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		process := strconv.Itoa(int(pid))
		if !yield(process) {
			return
		}
		tasks, err := os.Open(filepath.Join(proc, process, "task")) //nolint:gosec // below the process table
		if err != nil {
			return
		}
		defer tasks.Close()
		names, err := tasks.Readdirnames(maxThreads)
		for _, name := range names {
			if name != process && !yield(filepath.Join(process, "task", name)) {
				return
			}
		}
		_ = err // the next look reads it again
	}
}

// find looks for a process of the engine that has one of the sockets open.
func (p *portProbe) find(ctx context.Context, inodes map[uint64]bool) (finding, error) {
	s := search{proc: p.watcher.deps.Proc, inodes: inodes, left: maxDescriptors}
	defer func() { p.watcher.counts.descriptors.Add(int64(maxDescriptors - max(0, s.left))) }()
	for _, ref := range p.refs {
		if ctx.Err() != nil {
			return finding{}, ctx.Err() //nolint:wrapcheck // the caller's own
		}
		if s.has(ref.PID) && p.owns(ref) {
			return finding{ready: true}, nil
		}
	}
	reason := fmt.Sprintf("another process than the engine's listens on port %d", p.port)
	switch {
	case s.left <= 0:
		reason = fmt.Sprintf("port %d is listened on, and the engine has more than %d open files: it is not known whether it listens", p.port, maxDescriptors)
	case s.denied != nil:
		reason = fmt.Sprintf("port %d is listened on, and the agent may not see whether by the engine: %v", p.port, s.denied)
	}
	return finding{reason: reason}, nil
}

// owns reports whether a process that was found is still the engine's, and not that of another
// engine which it has started.
func (p *portProbe) owns(ref process.Ref) bool {
	deps := p.watcher.deps
	e := process.Engine{Root: p.engine.Root, Reaper: p.engine.Reaper}
	if deps.Others != nil {
		e.Others = deps.Others()
	}
	members, err := process.Members(deps.Proc, e)
	return err == nil && slices.Contains(members, ref)
}

// search looks through open files for sockets.
type search struct {
	proc   string
	inodes map[uint64]bool
	left   int   // how many files may still be looked at
	denied error // the first process that could not be looked into
}

// has reports whether a process has one of the sockets open.
func (s *search) has(pid int32) bool {
	var denied error
	for folder := range threads(s.proc, pid) {
		some, found, err := s.hasIn(filepath.Join(s.proc, folder, "fd"))
		if found {
			return true
		}
		if some || s.left <= 0 {
			return false // all of its threads share them
		}
		if denied == nil && err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			denied = err
		}
	}
	if s.denied == nil {
		s.denied = denied
	}
	return false
}

// hasIn looks through one folder of open files. some: there are any.
func (s *search) hasIn(folder string) (some, found bool, err error) {
	dir, err := os.Open(folder) //nolint:gosec // below the process table
	if err != nil {
		return false, false, err //nolint:wrapcheck // names the folder
	}
	defer dir.Close()
	var target [64]byte
	for s.left > 0 {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			some = true
			if s.left--; s.left < 0 {
				return some, false, nil
			}
			n, err := unix.Readlinkat(int(dir.Fd()), name, target[:])
			if err != nil {
				continue // it was closed
			}
			if inode, is := socketInode(target[:n]); is && s.inodes[inode] {
				return some, true, nil
			}
		}
		if err != nil || len(names) == 0 {
			return some, false, nil // its end; or the process has ended
		}
	}
	return some, false, nil
}

// socketInode reads the name of an open socket, "socket:[123]".
func socketInode(target []byte) (uint64, bool) {
	const before, after = "socket:[", "]"
	if len(target) <= len(before)+len(after) || string(target[:len(before)]) != before || target[len(target)-1] != ']' {
		return 0, false
	}
	inode, err := strconv.ParseUint(string(target[len(before):len(target)-1]), 10, 64)
	return inode, err == nil
}
