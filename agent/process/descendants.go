package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/bursar/bursar/internal/processtable"
)

// Descendants returns a running process and its descendants, the process first. It reads the
// children of each process from the kernel, so other processes of the machine cost nothing. If the
// kernel does not list children (without CONFIG_PROC_CHILDREN), it reads the whole process table. A
// child that ends or gets another parent in the meantime may hide others; the next call finds them.
// ErrEnded: the process has ended.
func Descendants(proc string, root Ref) ([]Ref, error) {
	table, err := procfs.NewFS(proc)
	if err != nil {
		return nil, fmt.Errorf("process table: %w", err)
	}
	stat, err := statOf(table, int(root.PID))
	if errors.Is(err, fs.ErrPermission) || err != nil && proc == "/proc" && processtable.Exists(int(root.PID)) {
		return nil, &HiddenError{root}
	}
	if err != nil || stat.Starttime != root.StartTime {
		return nil, ErrEnded
	}
	found := []Ref{root}
	known := map[int32]bool{root.PID: true}
	for next := 0; next < len(found); next++ {
		children, err := childrenOf(proc, found[next].PID)
		if err != nil {
			return Members(proc, Engine{Root: root})
		}
		if stat, err := statOf(table, int(found[next].PID)); err != nil || stat.Starttime != found[next].StartTime {
			continue // these may be the children of another process that has reused the pid
		}
		for _, pid := range children {
			stat, err := statOf(table, pid)
			if err != nil || stat.PPID != int(found[next].PID) || pid == os.Getpid() {
				continue // it has ended, and another process may have its pid
			}
			if ref := (Ref{PID: int32(pid), StartTime: stat.Starttime}); !known[ref.PID] { //nolint:gosec // a pid is below 2^22
				known[ref.PID] = true
				found = append(found, ref)
			}
		}
	}
	return found, nil
}

func statOf(table procfs.FS, pid int) (procfs.ProcStat, error) {
	process, err := table.Proc(pid)
	if err != nil {
		return procfs.ProcStat{}, err //nolint:wrapcheck // nobody is told
	}
	return process.Stat() //nolint:wrapcheck // nobody is told
}

// childrenOf lists the children of all threads of a process. A process that has ended has none.
func childrenOf(proc string, pid int32) (children []int, err error) {
	tasks := filepath.Join(proc, strconv.Itoa(int(pid)), "task")
	threads, err := os.ReadDir(tasks)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("threads: %w", err)
	}
	for _, thread := range threads {
		content, err := os.ReadFile(filepath.Join(tasks, thread.Name(), "children")) //nolint:gosec // below the process table
		if err != nil {
			if _, gone := os.Stat(filepath.Join(tasks, thread.Name())); errors.Is(gone, fs.ErrNotExist) {
				continue
			}
			return nil, fmt.Errorf("children: %w", err)
		}
		for word := range strings.FieldsSeq(string(content)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				return nil, fmt.Errorf("children: %w", err)
			}
			children = append(children, child)
		}
	}
	return children, nil
}
