package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// statfsPatience is how long a measurement waits for file systems to answer. If one has not
// answered by then, no measurement waits for it again: its answer counts when it comes.
const statfsPatience = time.Second

// maxRefusal is the bound of the contract, in characters.
const maxRefusal = 1024

// fileSystem has the figures of a file system. A total of 0: it is not known how much there is, and
// not how much is free.
type fileSystem struct {
	totalBytes, freeBytes, totalInodes, freeInodes int64

	readOnly bool
	// odd says which figures make no sense; empty: all do.
	odd string
}

// WorkDirs looks after the directories that engines write to. One goroutine uses it.
type WorkDirs struct {
	// statfs asks the file system of a directory. It may hang.
	statfs   func(path string) (fileSystem, error)
	patience time.Duration
	log      *slog.Logger
	// dirs are by path, those of the last measurement.
	dirs map[string]*workDir
}

// workDir is the state of one directory.
type workDir struct {
	// answer gets the figures of the file system; nil: it is not being asked. It has room for one
	// answer, so that nothing must wait for it.
	answer chan statfsAnswer
	// late: it did not answer in time, and has not answered since.
	late bool
	// last is the last answer.
	last statfsAnswer
	// shortOf: less than wanted is left, and not a tenth more than that again.
	shortOfSpace, shortOfInodes bool
	// why is the reason for refusing new engines; empty: there is none.
	why string
}

type statfsAnswer struct {
	found fileSystem
	err   error
}

// NewWorkDirs returns WorkDirs that have not looked at any directory yet.
func NewWorkDirs(log *slog.Logger) *WorkDirs {
	return &WorkDirs{statfs: statfs, patience: statfsPatience, log: log}
}

// Measure asks all file systems at once and returns their figures, why the host wants no new
// engines (empty: it takes them), and which of their figures are odd, by path. It takes no longer
// than patience, and waits only once for one that hangs.
func (w *WorkDirs) Measure(ctx context.Context, wanted []WorkDirSettings) (disks []*bursarv1.DiskSample, refusal string, odd map[string]string) {
	w.ask(ctx, wanted)
	var reasons []string
	for _, settings := range wanted {
		dir := w.dirs[settings.Path]
		before := dir.why
		disk := dir.judge(settings)
		disks = append(disks, disk)
		if found := dir.last.found; found.odd != "" {
			if odd == nil {
				odd = make(map[string]string)
			}
			odd[settings.Path] = found.odd
		}
		if dir.why != "" {
			reasons = append(reasons, settings.Path+": "+dir.why)
		}
		switch {
		case dir.why != "" && before == "":
			w.log.Warn("no new engines: a work directory is short", "path", settings.Path, "reason", dir.why)
		case dir.why == "" && before != "":
			w.log.Info("a work directory has enough again", "path", settings.Path, "free_bytes", disk.GetFreeBytes(), "free_inodes", disk.GetFreeInodes())
		}
	}
	return disks, Joined(reasons...), odd
}

// Joined is why a host takes no new engines; empty: it does.
func Joined(reasons ...string) string {
	reasons = slices.DeleteFunc(reasons, func(reason string) bool { return reason == "" })
	return spelling.Cut(strings.Join(reasons, "; "), maxRefusal)
}

// ask takes the answers that there are, asks the file systems that are not being asked already,
// and waits for these.
func (w *WorkDirs) ask(ctx context.Context, wanted []WorkDirSettings) {
	dirs := make(map[string]*workDir, len(wanted))
	for _, settings := range wanted {
		dir := w.dirs[settings.Path]
		if dir == nil {
			dir = &workDir{}
		}
		dirs[settings.Path] = dir
		if dir.answer != nil { // it hung, and may have come back
			select {
			case dir.last = <-dir.answer:
				dir.answer, dir.late = nil, false
			default:
			}
		}
		if dir.answer == nil {
			dir.answer = make(chan statfsAnswer, 1)
			go func() { // nothing waits for its end: it may hang for as long as the machine runs
				found, err := w.statfs(settings.Path)
				dir.answer <- statfsAnswer{found, err}
			}()
		}
	}
	w.dirs = dirs
	ctx, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	for _, dir := range dirs {
		if dir.late {
			continue
		}
		select {
		case dir.last = <-dir.answer:
			dir.answer = nil
		case <-ctx.Done():
			select { // one that has answered is not late because another is
			case dir.last = <-dir.answer:
				dir.answer = nil
			default:
				dir.late = true
			}
		}
	}
}

// judge decides whether the directory is short, with hysteresis, and returns its figures.
func (d *workDir) judge(settings WorkDirSettings) *bursarv1.DiskSample {
	found := d.last.found
	disk := &bursarv1.DiskSample{
		Path: settings.Path, TotalBytes: found.totalBytes, FreeBytes: found.freeBytes,
		TotalInodes: found.totalInodes, FreeInodes: found.freeInodes,
	}
	d.why = ""
	switch {
	case d.late:
		d.why = "the file system does not answer"
	case d.last.err != nil:
		d.why = d.last.err.Error()
	case found.readOnly:
		d.why = "the file system is read-only"
	default:
		d.shortOfSpace = found.totalBytes > 0 && short(d.shortOfSpace, found.freeBytes, found.totalBytes, settings.space)
		d.shortOfInodes = found.totalInodes > 0 && short(d.shortOfInodes, found.freeInodes, found.totalInodes, settings.inodes)
		var reasons []string
		if d.shortOfSpace {
			reasons = append(reasons, fmt.Sprintf("%s of %s free, want %s",
				resource.ApproximateMemory(found.freeBytes), resource.ApproximateMemory(found.totalBytes), settings.spaceAs))
		}
		if d.shortOfInodes {
			reasons = append(reasons, fmt.Sprintf("%d of %d inodes free, want %s", found.freeInodes, found.totalInodes, settings.nodesAs))
		}
		d.why = strings.Join(reasons, ", ")
	}
	disk.Short = d.why != ""
	return disk
}

// short begins below the threshold. It ends at a tenth above it, or if all is free and that is
// enough.
func short(was bool, free, total int64, t threshold) bool {
	least := t.of(total)
	if was {
		least += min(least/10, max(0, total-least))
	}
	return free < least
}

// statfs asks the file system of a directory.
func statfs(path string) (fileSystem, error) {
	info, err := os.Stat(path)
	var pathErr *os.PathError
	switch {
	case errors.As(err, &pathErr):
		return fileSystem{}, pathErr.Err
	case err != nil:
		return fileSystem{}, err //nolint:wrapcheck // there is none
	case !info.IsDir():
		return fileSystem{}, unix.ENOTDIR
	}
	var found unix.Statfs_t
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Statfs(path, &found)
	}
	if err != nil {
		return fileSystem{}, err //nolint:wrapcheck // the caller knows of what
	}
	figures := judgeFigures(&found)
	figures.readOnly = found.Flags&unix.ST_RDONLY != 0 && readOnlyForEngines(path)
	return figures, nil
}

// judgeFigures judges space and inodes each for itself.
func judgeFigures(found *unix.Statfs_t) fileSystem {
	// Blocks are counted in fragments. Some file systems leave that out.
	unit := uint64(max(0, found.Frsize))
	if unit == 0 {
		unit = uint64(max(0, found.Bsize))
	}
	var got fileSystem
	var odd []string
	switch {
	case found.Blocks > 0 && (unit == 0 || negative(found.Blocks) || negative(found.Bfree) && negative(found.Bavail)):
		odd = append(odd, fmt.Sprintf("%d of %d blocks of %d bytes are free: left out", int64(found.Bavail), int64(found.Blocks), unit)) //nolint:gosec // as it says them
	default:
		got.totalBytes = times(found.Blocks, unit)
		got.freeBytes = min(got.totalBytes, times(available(found.Bavail), unit))
		if !negative(found.Bavail) && found.Bavail > found.Blocks {
			odd = append(odd, fmt.Sprintf("%d of %d blocks are free: cut to them", found.Bavail, found.Blocks))
		}
	}
	switch {
	case found.Files == 0: // it does not count them
	case negative(found.Files), negative(found.Ffree), found.Ffree > found.Files:
		odd = append(odd, fmt.Sprintf("%d of %d inodes are free: left out", int64(found.Ffree), int64(found.Files))) //nolint:gosec // as it says them
	case found.Ffree == 0 && makesInodes(int64(found.Type)): //nolint:unconvert // 32 bits on some machines
		// They never run out: f_files is how many files there are.
	default:
		got.totalInodes, got.freeInodes = times(found.Files, 1), times(found.Ffree, 1)
	}
	got.odd = strings.Join(odd, "; ")
	return got
}

// makesInodes reports whether a file system makes inodes as they are needed and may say that none
// is free: CephFS, and any file system behind FUSE.
func makesInodes(kind int64) bool {
	const ceph = 0x00c36400 // CEPH_SUPER_MAGIC of linux/magic.h
	return kind == ceph || kind == unix.FUSE_SUPER_MAGIC
}

// negative reports whether a file system has said a number below 0, such as -1 for "not known".
func negative(count uint64) bool { return count > math.MaxInt64 }

// available is 0 if a file system says that less than nothing is left, as it does when the reserve
// of root is in use.
func available(count uint64) uint64 {
	if negative(count) {
		return 0
	}
	return count
}

// times multiplies and stays within the range of int64.
func times(count, unit uint64) int64 {
	if unit > 0 && count > math.MaxInt64/unit {
		return math.MaxInt64
	}
	return int64(count * unit) //nolint:gosec // checked above
}
