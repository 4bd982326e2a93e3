package host

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// mapped is the memory that a process has in its address space, in bytes.
type mapped struct {
	// anonymous and shared memory (tmpfs, memfd, System V) that is in RAM can only be swapped;
	// file is page cache.
	anonymous, shared, file int64
	// swapped is anonymous memory that is in swap. Of shared memory the kernel does not tell.
	swapped int64
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
		default:
			continue
		}
		var err error
		if *to, err = kilobytes(value); err != nil {
			return mapped{}, fmt.Errorf("%w status line %q", errMalformed, line)
		}
	}
	if found < 3 && total > 0 {
		return mapped{swapped: got.swapped}, errNoSplit
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
		swapped := got.swapped
		if data, err = s.read(m.file(pid, "statm")); err == nil {
			got, err = parseStatm(data)
			got.swapped = swapped
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
	// is what of the largest process is in swap.
	sum, largest, shared, swapped, largestSwapped int64
}

// treeMemory adds up the memory of an engine's processes. What could not be read is left out and
// reported.
func (m *Meter) treeMemory(e *engine) (treeUse, error) {
	t := &m.tracker
	families := map[image]*family{}
	var files int64
	var problem error
	for _, i := range e.members {
		row := &t.forest.table.rows[i]
		if row.ended() {
			continue
		}
		memory, err := m.readMapped(&t.scratch, row.thread)
		if err != nil {
			problem = err
			continue
		}
		files = max(files, memory.file)
		kin := families[row.image]
		if kin == nil {
			kin = &family{}
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
	}
	var use treeUse
	for of, kin := range families {
		of := m.familyMemory(shareKey{e, of}, kin)
		use.held += of.held
		use.unreclaimable += of.unreclaimable
		use.swapped += of.swapped
		use.shared += kin.shared
	}
	use.held += files
	return use, problem
}
