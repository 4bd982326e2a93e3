package host

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// mapped is the memory in a process's address space, in bytes.
type mapped struct {
	// anonymous and shared memory (tmpfs, memfd, System V) in RAM can only be swapped out; file is
	// page cache.
	anonymous, shared, file int64
	// swapped is anonymous memory in swap. The kernel does not report swapped shared memory.
	swapped int64
	// highest is the high-water mark of RAM, including files, since the process started its
	// program; 0 if unknown.
	highest int64
}

var errNoSplit = errors.New("the kernel does not tell the kinds of memory apart")

// parseMapped finds the memory in /proc/PID/status. A process without an address space (a kernel
// thread, a zombie) has none. errNoSplit: a kernel before 4.5; the result then has only swapped and
// highest.
func parseMapped(data []byte) (mapped, error) {
	var got mapped
	var total int64
	var found int
	for line := range bytes.Lines(data) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		var to *int64
		switch string(name) {
		case "VmRSS":
			to = &total
		case "RssAnon":
			to = &got.anonymous
			found++
		case "RssFile":
			to = &got.file
			found++
		case "RssShmem":
			to = &got.shared
			found++
		case "VmSwap":
			to = &got.swapped
		case "VmHWM":
			to = &got.highest
		default:
			continue
		}
		var err error
		if *to, err = kilobytes(value); err != nil {
			return mapped{}, fmt.Errorf("%w status line %q", errMalformed, line)
		}
	}
	if found < 3 && total > 0 {
		return mapped{swapped: got.swapped, highest: got.highest}, errNoSplit
	}
	return got, nil
}

// kilobytes parses " 123 kB".
func kilobytes(value []byte) (int64, error) {
	kB, isKB := bytes.CutSuffix(bytes.TrimSpace(value), []byte(" kB"))
	amount, err := cgroupfs.Number(kB)
	if err != nil || !isKB || amount > math.MaxInt64/1024/1024 {
		return 0, errMalformed
	}
	return amount * 1024, nil
}

// parseStatm reads the memory from /proc/PID/statm, in pages: total, resident, and the resident
// pages with a file or shared memory behind them. It counts the last as page cache, so it misses
// shared memory and the figure is too low.
func parseStatm(data []byte) (mapped, error) {
	var pages [3]int64
	next := 0
	for field := range bytes.FieldsSeq(data) {
		if next == len(pages) {
			break
		}
		amount, err := cgroupfs.Number(field)
		if err != nil || amount > math.MaxInt64/int64(os.Getpagesize())/1024 {
			return mapped{}, fmt.Errorf("%w statm %q", errMalformed, data)
		}
		pages[next] = amount * int64(os.Getpagesize())
		next++
	}
	if next < len(pages) {
		return mapped{}, fmt.Errorf("%w statm %q", errMalformed, data)
	}
	return mapped{anonymous: max(0, pages[1]-pages[2]), file: pages[2]}, nil
}

// readMapped reads the memory of one process; zero if it has ended.
func (m *Meter) readMapped(s *scratch, pid int32) (mapped, error) {
	data, err := s.read(m.file(pid, "status"))
	var got mapped
	if err == nil {
		got, err = parseMapped(data)
	}
	if errors.Is(err, errNoSplit) {
		told := got
		if data, err = s.read(m.file(pid, "statm")); err == nil {
			got, err = parseStatm(data)
			got.swapped, got.highest = told.swapped, told.highest
		}
	}
	if cgroupfs.Absent(err) {
		return mapped{}, nil
	}
	if err != nil {
		return mapped{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return got, nil
}

// treeUse is the total memory of an engine's processes, in bytes.
type treeUse struct {
	// held is all memory. unreclaimable is the part of it that is certain and that the kernel
	// cannot reclaim, or only to swap. swapped is the part of that in swap. shared is the sum of
	// mapped shared memory; memory that several processes have mapped counts several times.
	held, unreclaimable, swapped, shared int64
	// files is the mapped file memory of the process with the most.
	files int64
	// lazy was given back with MADV_FREE, and is excluded from unreclaimable. unsure is the part of
	// unreclaimable that was not checked: it may have been given back, or may belong to a process
	// that is not the engine's.
	lazy, unsure int64
	// spike is how much the unreclaimable memory was higher than now at some time since the last
	// pass, as far as single processes show it. highest is the largest process's high-water mark:
	// see mapped.
	spike, highest int64
}

// family is the set of an engine's processes that run the same start of the same program: one
// process and its forks. They share all unmodified pages, so their sum counts these several times.
type family struct {
	processes []int32
	// fingerprint changes with the set of processes.
	fingerprint uint64
	// All sums exclude page cache. sum is their memory in RAM and in swap, largest that of the
	// largest process. shared is the part in shared memory, swapped the part in swap,
	// largestSwapped the largest process's part in swap. anonymous is the anonymous memory in RAM.
	sum, largest, shared, swapped, largestSwapped, anonymous int64
	// outside: a process that is not the engine's forked the first of them, and shares pages with
	// them.
	outside bool
}

// treeMemory adds up the memory of an engine's processes. It reports unreadable processes and
// leaves them out.
func (m *Meter) treeMemory(e *engine) (treeUse, error) {
	t := &m.tracker
	families := map[image]*family{}
	var use treeUse
	var files, highest int64
	var problem error
	m.findForker(e)
	e.marks.begin()
	for _, i := range e.members {
		row := &t.forest.table.rows[i]
		if row.ended() || m.isInParentsMemory(row) {
			continue
		}
		memory, err := m.readMapped(&t.scratch, row.thread)
		if err != nil {
			problem = err
			continue
		}
		files, highest = max(files, memory.file), max(highest, memory.highest)
		use.spike = max(use.spike, e.marks.spike(&t.forest.table, row, memory))
		kin := families[row.image]
		if kin == nil {
			kin = &family{outside: row.image == e.forked && e.forked != (image{})}
			families[row.image] = kin
		}
		own := memory.anonymous + memory.shared + memory.swapped
		kin.processes = append(kin.processes, row.thread)
		kin.fingerprint += uint64(row.pid)*0x9e3779b97f4a7c15 ^ row.start //nolint:gosec // any bits will do
		kin.sum += own
		if own > kin.largest {
			kin.largest, kin.largestSwapped = own, memory.swapped
		}
		kin.shared += memory.shared
		kin.swapped += memory.swapped
		kin.anonymous += memory.anonymous
	}
	e.marks.end()
	for of, kin := range families {
		of := m.familyMemory(shareKey{e, of}, kin)
		use.held += of.held
		use.unreclaimable += of.unreclaimable
		use.swapped += of.swapped
		use.shared += kin.shared
		use.lazy += of.lazy
		use.unsure += of.unsure
	}
	use.held += files
	use.files, use.highest = files, highest
	return use, problem
}

// isInParentsMemory reports whether a process uses its parent's address space, and the parent is of
// the same engine. This is so between vfork and exec. The kernel counts such pages once, but shows
// all of them for both processes. False: the kernel does not tell.
func (m *Meter) isInParentsMemory(row *process) bool {
	parent := m.tracker.forest.table.row(row.parent)
	if m.exists == nil || parent == nil || parent.owner != row.owner || parent.image != row.image || parent.ended() {
		return false
	}
	const addressSpace = 1                                                                                                // KCMP_VM of linux/kcmp.h
	order, _, problem := unix.Syscall6(unix.SYS_KCMP, uintptr(parent.thread), uintptr(row.thread), addressSpace, 0, 0, 0) //nolint:gosec // pids
	return problem == 0 && order == 0
}

// findForker checks whether a process outside the engine has forked the engine's root, and the root
// has started no program since. Both then share memory, and their sum counts it twice. It reads the
// parent's stat once for each program that the root starts.
func (m *Meter) findForker(e *engine) {
	root := m.tracker.forest.table.same(e.key.pid, e.key.start)
	if root == nil || root.image == e.checked || root.image == (image{}) {
		return
	}
	e.checked, e.forked = root.image, image{}
	parent, err := m.readStat(&m.tracker.scratch, root.parent)
	if err == nil && parent.image == root.image && parent.start <= root.start {
		e.forked = root.image
	}
}

// mark is the last reading of a process.
type mark struct {
	start         uint64
	highest, file int64
}

// marks are the kernel's high-water marks of one engine's processes.
type marks struct {
	last, next map[int32]mark
	// looked: this is not the first pass.
	looked bool
}

func (k *marks) begin() {
	if k.next == nil {
		k.next = make(map[int32]mark, len(k.last))
	}
	clear(k.next)
}

func (k *marks) end() { k.last, k.next, k.looked = k.next, k.last, true }

// spike returns how much a process's unreclaimable memory was higher than now at some time since
// the last pass. The kernel's mark includes mapped files; spike assumes the larger of their amounts
// at the last pass and now. It ignores a mark from before the first measurement, and the mark of a
// fresh fork, which includes the parent's memory.
func (k *marks) spike(t *table, row *process, memory mapped) int64 {
	before, known := k.last[row.pid]
	known = known && before.start == row.start
	k.next[row.pid] = mark{row.start, memory.highest, memory.file}
	switch {
	case known && memory.highest <= before.highest, !known && !k.looked:
		return 0
	case !known:
		if parent := t.row(row.parent); parent != nil && parent.image == row.image {
			return 0
		}
		before.file = 0
	}
	return max(0, memory.highest-max(before.file, memory.file)-memory.anonymous-memory.shared)
}
