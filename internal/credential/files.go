package credential

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/internal/regularfile"
)

const (
	// checkEvery is the shortest time between two checks of the files.
	checkEvery = time.Second
	// settleTime is the age that a file's last change must have before an unchanged time and size
	// prove an unchanged content.
	settleTime = 2 * time.Second
	// maxFile is the largest size in bytes of a file that is read: a bundle of all public CAs takes
	// a fourth of it.
	maxFile = 1 << 20
)

// Options are shared by all types that read files. The zero value of a field is its default.
type Options struct {
	// Field is the path of the struct in the configuration, for errors. Default: "tls"; for a Token
	// nothing.
	Field string
	// Log logs changes of files and faults of changed files. Default: no log.
	Log *slog.Logger
	// Now returns the current time. Default: time.Now.
	Now func() time.Time
	// Later lets Open succeed if the files have a fault that time may mend. Until the fault is
	// gone, connections and calls that need the files fail with its reason. Only ClientTLS and
	// Token use this option.
	Later bool
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// file is one file of a bundle.
type file struct {
	field, path string
	// secret files must belong to root or to the user of this process, only their owner may write
	// them, and only their owner and group may read them.
	secret bool
	want   string
}

func (f file) wrong(wrong string, err error) *FileError {
	return &FileError{Field: f.field, File: f.path, Wrong: wrong, Want: f.want, Err: err}
}

// read returns the content.
func (f file) read() ([]byte, fs.FileInfo, error) {
	opened, info, err := regularfile.Open(f.path)
	switch {
	case errors.Is(err, regularfile.ErrNotRegular):
		return nil, nil, f.wrong("is no regular file", nil)
	case err != nil:
		return nil, nil, f.wrong(reasonOf(err), err)
	}
	defer opened.Close()
	switch {
	case info.Size() > maxFile:
		return nil, nil, f.wrong(fmt.Sprintf("has %d bytes", info.Size()), nil)
	case f.secret:
		if wrong, want := exposed(info, os.Geteuid()); wrong != "" {
			return nil, nil, &FileError{Field: f.field, File: f.path, Wrong: wrong, Want: want}
		}
	}
	content, err := io.ReadAll(io.LimitReader(opened, maxFile))
	if err != nil {
		return nil, nil, f.wrong(reasonOf(err), err)
	}
	return content, info, nil
}

// exposed describes access to a secret file by other users, and a correct mode or owner. Both are
// empty if there is none. us is the user of this process.
func exposed(info fs.FileInfo, us int) (wrong, want string) {
	uid, _ := regularfile.Owners(info)
	owner := int(uid)
	switch mode := info.Mode().Perm(); {
	case mode&0o007 != 0:
		return fmt.Sprintf("everybody on this machine has access to it (mode %04o)", mode), wantModes
	case mode&0o020 != 0:
		return fmt.Sprintf("its group can change it (mode %04o)", mode), wantModes
	case owner != us && owner != 0:
		return fmt.Sprintf("it belongs to another user (uid %d), who can change it", owner), fmt.Sprintf("a file of root, or of the user that this process runs as (chown %d)", us)
	}
	return "", ""
}

const wantModes = "a file that only its owner can change, and only its owner and group can read: chmod 0600 or 0640"

// reasonOf removes the path from an error, because the message already has it.
func reasonOf(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// bundle is a value that is parsed from some files, and parsed again when one of them changes.
type bundle[T any] struct {
	files []file
	parse func(contents [][]byte, now time.Time) (T, error)
	opt   Options

	current   atomic.Pointer[T]
	checkedAt atomic.Int64 // when the files were last checked, Unix nanoseconds

	mu sync.Mutex
	// seen are the infos of the files when current was parsed; nil: the next check must read them.
	// Guarded by mu.
	seen   []fs.FileInfo
	sum    [sha256.Size]byte // guarded by mu: of the contents of current
	fault  string            // guarded by mu: the fault of the current files; empty: none
	logged bool              // guarded by mu: fault has been logged
	cause  error             // guarded by mu: the error of which fault is the text
}

// openBundle reads the files for the first time.
func openBundle[T any](files []file, opt Options, parse func([][]byte, time.Time) (T, error)) (*bundle[T], error) {
	b := &bundle[T]{files: files, parse: parse, opt: opt}
	now := opt.Now()
	contents, infos, err := b.read()
	var made T
	if err == nil {
		made, err = parse(contents, now)
	}
	b.checkedAt.Store(now.UnixNano())
	if wrong, ok := errors.AsType[*FileError](err); ok && opt.Later && wrong.Transient() {
		b.fault, b.cause, b.logged = err.Error(), err, true
		opt.Log.Error("files cannot be used yet: calls that need them fail until they can", "error", err)
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	b.current.Store(&made)
	b.sum, b.seen = sumOf(contents), settled(infos, now)
	return b, nil
}

// unready returns the reason why there is no usable value yet; nil if there is one. It is for files
// that were opened with Later.
func (b *bundle[T]) unready() error {
	if b.get() != nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cause
}

// get returns the last good value of the files; nil if there was none yet.
func (b *bundle[T]) get() *T {
	now := b.opt.Now()
	last := b.checkedAt.Load()
	if since := now.UnixNano() - last; (since >= int64(checkEvery) || since < 0) && b.checkedAt.CompareAndSwap(last, now.UnixNano()) {
		b.refresh(now)
	}
	return b.current.Load()
}

// refresh parses the files again if they have changed.
func (b *bundle[T]) refresh(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fault == "" && b.unchanged() {
		return
	}
	contents, infos, err := b.read()
	if err == nil {
		if sum := sumOf(contents); sum != b.sum {
			var made T
			if made, err = b.parse(contents, now); err == nil {
				b.current.Store(&made)
				b.sum = sum
				b.opt.Log.Info("changed files are in use", "files", b.paths())
			}
		}
	}
	if err != nil {
		b.faultLocked(err)
		return
	}
	b.fault, b.cause, b.logged, b.seen = "", nil, false, settled(infos, now)
}

// faultLocked stores the fault of the files. It logs the fault at the second check that finds it,
// because an operator replaces a certificate and its key one after the other.
func (b *bundle[T]) faultLocked(err error) {
	if text := err.Error(); text != b.fault {
		b.fault, b.cause, b.logged = text, err, false
		return
	}
	switch {
	case b.logged:
	case b.current.Load() == nil:
		b.logged = true
		b.opt.Log.Error("files cannot be used yet: calls that need them fail until they can", "error", err)
	default:
		b.logged = true
		b.opt.Log.Error("changed files cannot be used: the earlier ones stay in use", "error", err)
	}
}

// wrong returns the fault of the files; empty if there is none.
func (b *bundle[T]) wrong() string {
	b.get()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fault
}

func (b *bundle[T]) read() (contents [][]byte, infos []fs.FileInfo, err error) {
	for _, f := range b.files {
		content, info, err := f.read()
		if err != nil {
			return nil, nil, err
		}
		contents, infos = append(contents, content), append(infos, info)
	}
	return contents, infos, nil
}

// unchanged reports, without reading, whether the files are those from which current was parsed.
func (b *bundle[T]) unchanged() bool {
	if len(b.seen) != len(b.files) {
		return false
	}
	for i, f := range b.files {
		info, err := os.Stat(f.path)
		if err != nil || !os.SameFile(info, b.seen[i]) || info.Size() != b.seen[i].Size() ||
			!info.ModTime().Equal(b.seen[i].ModTime()) || info.Mode() != b.seen[i].Mode() {
			return false
		}
	}
	return true
}

func (b *bundle[T]) paths() []string {
	paths := make([]string, len(b.files))
	for i, f := range b.files {
		paths[i] = f.path
	}
	return paths
}

// settled returns the infos if an unchanged info proves an unchanged content. A file that was
// written a moment ago may be written again with the same time.
func settled(infos []fs.FileInfo, now time.Time) []fs.FileInfo {
	for _, info := range infos {
		if now.Sub(info.ModTime()) < settleTime {
			return nil
		}
	}
	return infos
}

// sumOf returns one hash of all contents. It differs even if a byte moves from one file to the
// next.
func sumOf(contents [][]byte) [sha256.Size]byte {
	var all []byte
	for _, content := range contents {
		sum := sha256.Sum256(content)
		all = append(all, sum[:]...)
	}
	return sha256.Sum256(all)
}
