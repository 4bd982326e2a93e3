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
	// checkEvery is the least time between two checks of the files.
	checkEvery = time.Second
	// settleTime is how old a file's last change must be for its time and size to vouch for its
	// content.
	settleTime = 2 * time.Second
	// maxFile is the size in bytes above which a file is refused: a bundle of all public CAs takes
	// a fourth of it.
	maxFile = 1 << 20
)

// Options are what everything that reads files here needs. The zero value of a field is its
// default.
type Options struct {
	// Field is the path of the struct in the configuration, for errors. Default "tls", of a Token
	// nothing.
	Field string
	// Log takes what changes, and what is wrong with a change. Default: it is not logged.
	Log *slog.Logger
	// Now tells the time. Default time.Now.
	Now func() time.Time
	// Later opens files that cannot be used for a reason that time may mend. Until they can be
	// used, connections and calls that need them fail, with the reason. Only ClientTLS and Token
	// take it.
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

// file is one of those that are read together.
type file struct {
	field, path string
	// secret files must be unreadable for others than their owner and group, and theirs is root or
	// us, who alone may change them.
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

// exposed says who else can read a secret file, or put another secret into it, and what would be
// right; empty: only who may. us is the user that this process runs as.
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

// reasonOf leaves out the path, which the message has already.
func reasonOf(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// bundle is what was made of some files, and is made again when one of them changes.
type bundle[T any] struct {
	files []file
	parse func(contents [][]byte, now time.Time) (T, error)
	opt   Options

	current   atomic.Pointer[T]
	checkedAt atomic.Int64 // when the files were last looked at, Unix nanoseconds

	mu sync.Mutex
	// seen are the infos of the files that current was made of; nil: they must be read. Guarded by
	// mu.
	seen   []fs.FileInfo
	sum    [sha256.Size]byte // guarded by mu: of what current was made of
	fault  string            // guarded by mu: what is wrong with the files as they are now
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

// unready says why there is nothing to use yet; nil: there is. It is for files that were opened
// with Later.
func (b *bundle[T]) unready() error {
	if b.get() != nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cause
}

// get returns the content of the files at the time when they were last right; nil: they never
// were.
func (b *bundle[T]) get() *T {
	now := b.opt.Now()
	last := b.checkedAt.Load()
	if since := now.UnixNano() - last; (since >= int64(checkEvery) || since < 0) && b.checkedAt.CompareAndSwap(last, now.UnixNano()) {
		b.refresh(now)
	}
	return b.current.Load()
}

// refresh makes current again if the files have changed.
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

// faultLocked notes what is wrong with the files. It is logged when it is still so at the next
// look: a certificate and its key are replaced one after the other.
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

// wrong says what is wrong with the files; empty if nothing is.
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

// unchanged reports, without reading, whether the files are those that current was made of.
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

// settled returns the infos if they vouch for the content that was read with them. A file that was
// written just now may be written again without another time.
func settled(infos []fs.FileInfo, now time.Time) []fs.FileInfo {
	for _, info := range infos {
		if now.Sub(info.ModTime()) < settleTime {
			return nil
		}
	}
	return infos
}

// sumOf tells contents apart, even if a byte has moved from one file to the next.
func sumOf(contents [][]byte) [sha256.Size]byte {
	var all []byte
	for _, content := range contents {
		sum := sha256.Sum256(content)
		all = append(all, sum[:]...)
	}
	return sha256.Sum256(all)
}
