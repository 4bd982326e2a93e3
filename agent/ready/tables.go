package ready

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// freshFor is how long a table is used for: engines that are looked at in the same moment share
	// one.
	freshFor = 100 * time.Millisecond
	// maxSockets bounds how many lines of a table are read.
	maxSockets = 1 << 16
)

// The states of sockets in the kernel's tables.
const (
	stateReceived    = "03" // TCP_SYN_RECV: some kernels have them between the listeners
	stateListen      = "0A"
	stateNewReceived = "0C"
)

// counts are how much was read.
type counts struct {
	tables, lists, descriptors atomic.Int64
}

// table has the sockets that listen in one network namespace.
type table struct {
	read   time.Time
	inodes map[uint16][]uint64 // by port
}

// tables reads the kernel's tables of TCP sockets, at most once in freshFor for each network
// namespace.
type tables struct {
	proc   string
	counts *counts

	mu    sync.Mutex
	known map[string]*table // guarded by mu; by the namespace's name
}

// listeners returns the inodes of the sockets that listen on a port in a network namespace. process
// is the folder of a process in that namespace, below the process table.
func (t *tables) listeners(namespace, process string, port uint16) ([]uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for name, known := range t.known {
		if now.Sub(known.read) >= freshFor {
			delete(t.known, name)
		}
	}
	found := t.known[namespace]
	if found == nil {
		found = &table{read: now, inodes: make(map[uint16][]uint64)}
		for _, name := range []string{"tcp", "tcp6"} {
			err := t.read(filepath.Join(t.proc, process, "net", name), found.inodes)
			if err != nil && (name == "tcp" || !errors.Is(err, fs.ErrNotExist)) { // there may be no IPv6
				return nil, err
			}
		}
		t.known[namespace] = found
	}
	return found.inodes[port], nil
}

// read adds the listeners of a table. The kernel lists them before all others, so that connections
// cost nothing.
func (t *tables) read(name string, into map[uint16][]uint64) error {
	file, err := os.Open(name) //nolint:gosec // below the process table
	if err != nil {
		return err //nolint:wrapcheck // names the file
	}
	defer file.Close()
	t.counts.tables.Add(1)
	lines := bufio.NewScanner(file)
	lines.Scan() // the names of its columns
	for range maxSockets {
		if !lines.Scan() {
			break
		}
		port, inode, state, valid := parseSocket(lines.Bytes())
		switch {
		case !valid, state == stateReceived, state == stateNewReceived:
		case state != stateListen:
			return nil
		default:
			into[port] = append(into[port], inode)
		}
	}
	return lines.Err() //nolint:wrapcheck // names the file
}

// parseSocket reads a line of /proc/net/tcp or tcp6.
func parseSocket(line []byte) (port uint16, inode uint64, state string, valid bool) {
	fields := bytes.Fields(line)
	if len(fields) < 10 {
		return 0, 0, "", false
	}
	_, hex, found := bytes.Cut(fields[1], []byte(":"))
	number, err := strconv.ParseUint(string(hex), 16, 16)
	if !found || err != nil {
		return 0, 0, "", false
	}
	inode, err = strconv.ParseUint(string(fields[9]), 10, 64)
	return uint16(number), inode, string(fields[3]), err == nil
}
