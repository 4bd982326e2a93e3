package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// pageWalk is one look at the page tables of a family.
type pageWalk struct {
	key         shareKey
	fingerprint uint64
	sumSwapped  int64
	scratch     *scratch
	// done gets the outcome. It has room for it, so nothing has to receive it.
	done chan outcome
}

type outcome struct {
	found proportional
	err   error
}

// walkPages walks over the page tables of a family and notes the outcome in its share. It reports
// whether there is a new one. What takes longer than patience goes on by itself, and its outcome
// is noted when a later pass begins.
func (m *Meter) walkPages(key shareKey, kin *family) bool {
	s := &m.tracker.shares
	w := &pageWalk{key: key, fingerprint: kin.fingerprint, sumSwapped: kin.swapped, scratch: s.scratch, done: make(chan outcome, 1)}
	s.pending, s.scratch = w, nil
	files := make([]string, len(kin.processes))
	for i, pid := range kin.processes {
		files[i] = m.file(pid, "smaps_rollup")
	}
	started := s.now()
	go func() {
		found, err := w.scratch.readProportional(files)
		w.done <- outcome{found, err}
	}()
	timer := time.NewTimer(s.patience)
	defer timer.Stop()
	noted := false
	select {
	case got := <-w.done:
		noted = s.record(got)
	case <-timer.C:
		s.exhausted = true
	}
	s.budget -= s.now().Sub(started)
	return noted
}

// finishPending notes the outcome of the pending walk, if it has come to an end.
func (s *shares) finishPending() {
	select {
	case got := <-s.pending.done:
		s.record(got)
	default:
	}
}

// record takes the outcome of the pending walk, and no walk is pending then. It reports whether it
// was good.
func (s *shares) record(got outcome) bool {
	w := s.pending
	s.pending, s.scratch = nil, w.scratch
	s.unsupported = errors.Is(got.err, errNoSplit)
	of := s.known[w.key]
	if got.err != nil || of == nil {
		return false
	}
	of.proportional, of.fingerprint, of.sumSwapped = got.found, w.fingerprint, w.sumSwapped
	return true
}

// readProportional adds up the proportional memory of processes. files are their smaps_rollup. A
// process that ended meanwhile has none; one that may not be looked into makes the sum worthless.
func (s *scratch) readProportional(files []string) (proportional, error) {
	var sum proportional
	var read int
	for _, file := range files {
		data, err := s.read(file)
		if cgroupfs.Absent(err) {
			continue
		}
		if err != nil {
			return proportional{}, err
		}
		one, err := parseProportional(data)
		if err != nil {
			return proportional{}, fmt.Errorf("%s: %w", file, err)
		}
		sum.bytes, sum.swapped = cgroupfs.Add(sum.bytes, one.bytes), cgroupfs.Add(sum.swapped, one.swapped)
		sum.lazy = cgroupfs.Add(sum.lazy, one.lazy)
		read++
	}
	if read == 0 {
		return proportional{}, fs.ErrNotExist // All ended, or a kernel before 4.14.
	}
	return sum, nil
}

// parseProportional finds the proportional anonymous and shared memory in /proc/PID/smaps_rollup.
// Of what is in swap the kernel tells the anonymous part. Memory that is lazily freed is in
// Pss_Anon, and in LazyFree, which is not divided.
func parseProportional(data []byte) (proportional, error) {
	var got proportional
	found := 0
	for line := range bytes.Lines(data) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		kind := string(name)
		switch kind {
		case "Pss_Anon", "Pss_Shmem", "SwapPss", "LazyFree":
		default:
			continue
		}
		quantity, err := kilobytes(value)
		if err != nil {
			return proportional{}, fmt.Errorf("%w smaps_rollup line %q", errMalformed, line)
		}
		switch kind {
		case "LazyFree":
			got.lazy = quantity
			continue
		case "SwapPss":
			got.swapped = quantity
		default:
			found++
		}
		got.bytes = cgroupfs.Add(got.bytes, quantity)
	}
	if found != 2 {
		return proportional{}, errNoSplit
	}
	return got, nil
}
