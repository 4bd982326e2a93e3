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

// mapped is the memory that a process has in its address space, in bytes.
type mapped struct {
	// anonymous and shared memory (tmpfs, memfd, System V) that is in RAM can only be swapped;
	// file is page cache.
	anonymous, shared, file int64
	// swapped is anonymous memory that is in swap. Of shared memory the kernel does not tell.
	swapped int64
	// highest is the most that it had in RAM at a time, files included, since it started its
	// program; 0: not known.
	highest int64
}

var errNoSplit = errors.New("the kernel does not tell the kinds of memory apart")

// parseMapped finds the memory in /proc/PID/status. A process without an address space has none: a
// kernel thread, a zombie. errNoSplit: a kernel before 4.5; that gives what is swapped, too.
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

// parseStatm takes the same from /proc/PID/statm, in pages: total, resident, and of these with a
// file or shared memory behind them. It counts the latter as page cache, so shared memory is
// missed: the figure is too low.
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

// readMapped reads the memory of one process; none if it has ended.
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

// treeUse is what the processes of an engine hold together, in bytes.
type treeUse struct {
	// held is all memory; unreclaimable the part of it that is certain and cannot be taken back,
	// or only to swap; swapped the part of that which is in swap; shared is the sum of the shared
	// memory that is mapped, which counts what several have mapped several times.
	held, unreclaimable, swapped, shared int64
	// files is what the process with the most mapped files has of them.
	files int64
	// lazy was given back with MADV_FREE, and is left out of unreclaimable. unsure is the part of
	// unreclaimable of which nobody has looked whether it was given back, or belongs to a process
	// that is not the engine's.
	lazy, unsure int64
	// spike is how much more than now was unreclaimable at some time since the last pass, as far
	// as a process alone tells. highest is the kernel's mark of the largest process: see mapped.
	spike, highest int64
}

// family is the processes of an engine that run the same start of the same program: one, and those
// it forked. They share what none of them has changed since, so that their sum counts it several
// times.
type family struct {
	processes []int32
	// fingerprint changes with the set of processes.
	fingerprint uint64
	// sum and largest are of the memory that is not page cache, in RAM and in swap; shared is the
	// sum of the part that is shared memory, swapped that of the part in swap, and largestSwapped
	// is what of the largest process is in swap. anonymous is the sum of the anonymous memory in
	// RAM.
	sum, largest, shared, swapped, largestSwapped, anonymous int64
	// outside: a process that is not the engine's forked the first of them, and shares with them.
	outside bool
}

// treeMemory adds up the memory of an engine's processes. What could not be read is left out and
// reported.
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

// isInParentsMemory reports whether a process has the address space of its parent, and the parent
// is of the same engine. That is so between vfork and exec. The kernel counts such pages once, and
// shows all of them for both processes. False: the kernel does not tell.
func (m *Meter) isInParentsMemory(row *process) bool {
	parent := m.tracker.forest.table.row(row.parent)
	if m.exists == nil || parent == nil || parent.owner != row.owner || parent.image != row.image || parent.ended() {
		return false
	}
	const addressSpace = 1                                                                                                // KCMP_VM of linux/kcmp.h
	order, _, problem := unix.Syscall6(unix.SYS_KCMP, uintptr(parent.thread), uintptr(row.thread), addressSpace, 0, 0, 0) //nolint:gosec // pids
	return problem == 0 && order == 0
}

// findForker finds out whether the engine's root was forked by a process that is not the engine's
// and has started no program of its own since: then both share memory, and their sum counts it
// twice. It reads the parent's stat once for each program that the root starts.
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

// mark is what was last read of a process.
type mark struct {
	start         uint64
	highest, file int64
}

// marks are the kernel's marks of the processes of one engine.
type marks struct {
	last, next map[int32]mark
	// looked: there was a pass before.
	looked bool
}

func (k *marks) begin() {
	if k.next == nil {
		k.next = make(map[int32]mark, len(k.last))
	}
	clear(k.next)
}

func (k *marks) end() { k.last, k.next, k.looked = k.next, k.last, true }

// spike is how much more than now of the memory of a process was unreclaimable at some time since
// the last pass. The kernel's mark includes files that were mapped then: as many as before or now.
// A mark from before the engine was measured does not count, and not that of a process that was
// just forked, which has its parent's memory in it.
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
