package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// pageWalk is one walk over the page tables of a family.
type pageWalk struct {
	key         shareKey
	fingerprint uint64
	sumSwapped  int64
	scratch     *scratch
	// done receives the outcome. It is buffered, so nothing has to receive it.
	done chan outcome
}

type outcome struct {
	found proportional
	err   error
}

// walkPages walks over the page tables of a family, stores the outcome in its share, and reports
// whether there is a new one. A walk that takes longer than patience continues in the background,
// and a later pass stores its outcome.
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

// finishPending stores the outcome of the pending walk, if that has finished.
func (s *shares) finishPending() {
	select {
	case got := <-s.pending.done:
		s.record(got)
	default:
	}
}

// record takes the outcome of the pending walk; then no walk is pending. It reports whether the
// walk succeeded.
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

// readProportional adds up the proportional memory of processes. files are their smaps_rollup. An
// ended process counts as zero; a process that may not be inspected makes the whole sum invalid.
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
		return proportional{}, fs.ErrNotExist // all have ended, or a kernel before 4.14
	}
	return sum, nil
}

// parseProportional finds the proportional anonymous and shared memory in /proc/PID/smaps_rollup.
// For swap, the kernel reports only the anonymous part. Lazily freed memory is in Pss_Anon, and
// undivided in LazyFree.
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
