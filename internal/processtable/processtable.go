// Package processtable reads the kinship of this machine's processes from /proc: parents, process
// groups and sessions. It keeps nothing. Any goroutine may call it.
package processtable

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Process is a process as the kernel shows it.
type Process struct {
	Parent, Group, Session int
	Ended                  bool // it was not waited for yet
}

// Exists reports whether a process has a pid, also one that /proc does not show: under hidepid,
// without a /proc, or if a security module denies it. An ended process counts until its parent has
// waited for it.
func Exists(pid int) bool {
	if pid <= 0 { // these are groups
		return false
	}
	err := unix.Kill(pid, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}

// Look reads one process. there is false if it has gone, or if this process cannot see it, which
// Exists tells apart.
func Look(pid int) (p Process, there bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // from field 3 on
	if len(fields) < 4 {
		return p, false
	}
	number := func(field int) int {
		n, _ := strconv.Atoi(string(fields[field])) // the kernel writes numbers
		return n
	}
	return Process{number(1), number(2), number(3), fields[0][0] == 'Z' || fields[0][0] == 'X'}, true
}

// Table is all processes by pid. Its entries are of different moments.
type Table map[int]Process

// Read reads all processes that this one can see. The table is empty if there is no /proc.
func Read() Table {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	table := make(Table, len(entries))
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if p, there := Look(pid); there {
				table[pid] = p
			}
		}
	}
	return table
}

// Descends reports whether a process has another one above it.
func (t Table) Descends(pid, from int) bool {
	for range len(t) { // entries of different moments may form a circle
		pid = t[pid].Parent
		if pid == from {
			return true
		}
		if pid <= 1 {
			return false
		}
	}
	return false
}
