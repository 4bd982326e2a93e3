package keeper_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/keeper"
)

// 256 MB as fast as they come: none is lost, no file is larger than it may be, no line is in two,
// and the keeper stays small.
func TestOutputIsRotatedAtAnySpeed(t *testing.T) {
	const (
		count  = 28_000_000 // some 240 MB of numbers
		file   = 16 << 20
		files  = 20
		little = 10 << 10 // kB
	)
	spec := shell(t, fmt.Sprintf("seq 1 %d; echo done > $FIFO; read x < $FIFO.end", count))
	spec.Log.MaxBytes, spec.Log.Keep = file, files
	fifo, next := lines(t, spec)
	if err := syscall.Mkfifo(fifo+".end", 0o644); err != nil {
		t.Fatal(err)
	}
	spec.Environment = append(spec.Environment, "FIFO="+fifo)
	began := time.Now()
	k := run(t, spec)
	next()
	took := time.Since(began)
	peak, err := strconv.Atoi(strings.TrimSuffix(status(t, k.cmd.Process.Pid, "VmHWM"), " kB"))
	if err != nil || peak > little {
		t.Errorf("the keeper took %d kB, %v: want at most %d", peak, err, little)
	}
	if err := os.WriteFile(fifo+".end", []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := k.end(); got.DroppedBytes != 0 {
		t.Errorf("%d bytes were dropped", got.DroppedBytes)
	}
	total, expected := int64(0), 1
	for i := files; i >= 0; i-- {
		name := "stdout"
		if i > 0 {
			name += "." + strconv.Itoa(i)
		}
		content, err := os.ReadFile(filepath.Join(spec.Log.Directory, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(content) > file || !bytes.HasSuffix(content, []byte("\n")) {
			t.Errorf("%s: %d bytes, ends with %q", name, len(content), content[max(0, len(content)-5):])
		}
		if first, _, _ := bytes.Cut(content, []byte("\n")); string(first) != strconv.Itoa(expected) {
			t.Errorf("%s begins with %q: want %d", name, first, expected)
		}
		expected += bytes.Count(content, []byte("\n"))
		total += int64(len(content))
	}
	if expected != count+1 {
		t.Errorf("%d lines: want %d", expected-1, count)
	}
	t.Logf("%d MB/s, the keeper took %d kB", total/1e6*1000/max(1, took.Milliseconds()), peak)
}

func TestOldestFilesGo(t *testing.T) {
	for keep, want := range map[int][]string{0: {"stdout"}, 1: {"stdout", "stdout.1"}, 3: {"stdout", "stdout.1", "stdout.2", "stdout.3"}} {
		t.Run(strconv.Itoa(keep), func(t *testing.T) {
			spec := shell(t, "seq 1 20000; printf %030d 7; printf %030d 8")
			spec.Log.MaxBytes, spec.Log.Keep = 1000, keep
			if got := run(t, spec).end(); got.DroppedBytes != 0 {
				t.Errorf("%d bytes were dropped", got.DroppedBytes)
			}
			files, err := filepath.Glob(filepath.Join(spec.Log.Directory, "stdout*"))
			if err != nil || len(files) != len(want) {
				t.Fatalf("%v, %v: want %v", files, err, want)
			}
			for _, name := range want {
				if size := len(said(t, spec, name)); size == 0 || size > 1000 {
					t.Errorf("%s has %d bytes", name, size)
				}
			}
			if got := said(t, spec, "stdout"); !strings.HasSuffix(got, "7"+strings.Repeat("0", 29)+"8") {
				t.Errorf("the newest ends with %q", got)
			}
		})
	}
}

func TestLogsGoOnWhereTheyEnded(t *testing.T) {
	spec := shell(t, "echo second")
	if err := os.WriteFile(filepath.Join(spec.Log.Directory, "stdout"), []byte("first\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(spec.Log.Directory, "stdout"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(spec.Log.Directory, "stdout"), nobody, nobody); os.Geteuid() == 0 && err != nil {
		t.Fatal(err)
	}
	run(t, spec).end()
	if got := said(t, spec, "stdout"); got != "first\nsecond\n" {
		t.Errorf("%q", got)
	}
}

func TestLogsAreTheirUsersAlone(t *testing.T) {
	spec := shell(t, "echo x >&2; head -c 3000 /dev/zero")
	spec.Log.MaxBytes, spec.Log.Keep = 1000, 3
	before := filepath.Join(spec.Log.Directory, "stderr")
	if err := errors.Join(os.WriteFile(before, nil, 0o600), os.Chmod(before, 0o644)); err != nil {
		// as an older version has left it, or more
		t.Fatal(err)
	}
	if err := os.Chown(before, nobody, nobody); os.Geteuid() == 0 && err != nil {
		t.Fatal(err)
	}
	run(t, spec).end()
	files, err := filepath.Glob(filepath.Join(spec.Log.Directory, "std*"))
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
}

// A folder that its user has named is the user's to lock.
func TestANamedFolderIsNotLocked(t *testing.T) {
	spec := shell(t, "exec flock -n "+`"$PWD"`+" true")
	spec.WorkingDirectory = spec.Log.Directory
	if got := run(t, spec).end(); got.Exit.Code == nil || *got.Exit.Code != 0 {
		t.Errorf("the engine cannot lock its folder: %+v", got)
	}
}

func TestFolderInUseIsNotCleanedUp(t *testing.T) {
	spec := shell(t, "exec sleep 1000")
	spec.Log.Own = true
	k := run(t, spec)
	dir, err := os.Open(spec.Log.Directory)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	// as systemd-tmpfiles does
	lock := func() error { return syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	if err := lock(); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("while the engine runs: %v", err)
	}
	if err := k.engine.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	k.end()
	if err := lock(); err != nil {
		t.Errorf("when it has ended: %v", err)
	}
}

func TestFullDiskHoldsNoEngineUp(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("want root, to mount a small tmpfs")
	}
	spec := shell(t, "head -c 50000000 /dev/zero; echo last words >&2; exit 2")
	if err := syscall.Mount("tmpfs", spec.Log.Directory, "tmpfs", 0, "size=1m,mode=777"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(spec.Log.Directory, 0); err != nil {
			t.Error(err)
		}
	}()
	got := run(t, spec).end()
	if got.Exit.Code == nil || *got.Exit.Code != 2 || len(got.Stderr) != 1 || got.Stderr[0] != "last words" {
		t.Errorf("%+v", got)
	}
	if got.DroppedBytes < 48_000_000 || got.DroppedBytes > 50_000_000 {
		t.Errorf("%d bytes were dropped", got.DroppedBytes)
	}
}

func TestFolderThatGoesAwayHoldsNoEngineUp(t *testing.T) {
	spec := shell(t, "")
	fifo, next := lines(t, spec)
	spec.Log.MaxBytes = 100
	spec.Log.Directory = filepath.Join(filepath.Dir(fifo), "logs")
	if err := os.Mkdir(spec.Log.Directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(spec.Log.Directory, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(fifo+".go", 0o644); err != nil {
		t.Fatal(err)
	}
	spec.Command[2] = fmt.Sprintf("echo up > %s; read x < %s.go; seq 1 1000; exit 5", fifo, fifo)
	k := run(t, spec)
	next()
	if err := os.RemoveAll(spec.Log.Directory); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fifo+".go", []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := k.end(); got.Exit.Code == nil || *got.Exit.Code != 5 || got.DroppedBytes == 0 {
		t.Errorf("%+v", got)
	}
}

// The keeper has its user's rights and no others, so that there is nothing to gain by these; but
// it must not write to a device or through a link to what the user only reads, nor wait for the
// reader of a FIFO.
func TestNothingButFilesAreLogs(t *testing.T) {
	for name, plant := range map[string]func(path, elsewhere string) error{
		"link to a file":   func(path, elsewhere string) error { return os.Symlink(elsewhere, path) },
		"link to nothing":  func(path, elsewhere string) error { return os.Symlink(elsewhere+".none", path) },
		"FIFO":             func(path, _ string) error { return syscall.Mkfifo(path, 0o666) },
		"FIFO with reader": nil,
		"folder":           func(path, _ string) error { return os.Mkdir(path, 0o777) },
		"socket":           func(path, _ string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o666, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			spec := shell(t, "echo hello")
			elsewhere := filepath.Join(folder(t), "elsewhere")
			if err := os.WriteFile(elsewhere, nil, 0o666); err != nil {
				t.Fatal(err)
			}
			if plant == nil {
				fifo, _ := lines(t, spec)
				plant = func(path, _ string) error { return os.Rename(fifo, path) }
			}
			if err := plant(filepath.Join(spec.Log.Directory, "stderr"), elsewhere); err != nil {
				t.Fatal(err)
			}
			k := begin(t, spec)
			if k.started.Field != keeper.FieldLogs || k.started.Value != spec.Log.Directory {
				t.Errorf("%+v", k.started)
			}
			_ = k.cmd.Wait()
			if content, err := os.ReadFile(elsewhere); err != nil || len(content) > 0 {
				t.Errorf("elsewhere: %q, %v", content, err)
			}
			if _, err := os.Stat(elsewhere + ".none"); err == nil {
				t.Error("a file was made through a link")
			}
		})
	}
}

func TestRotationPassesOverLinks(t *testing.T) {
	spec := shell(t, "seq 1 500")
	spec.Log.MaxBytes = 1000
	elsewhere := filepath.Join(folder(t), "elsewhere")
	if err := os.WriteFile(elsewhere, []byte("precious"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stdout.1", "stdout.2", "stdout.3"} {
		if err := os.Symlink(elsewhere, filepath.Join(spec.Log.Directory, name)); err != nil {
			t.Fatal(err)
		}
	}
	run(t, spec).end()
	if content, err := os.ReadFile(elsewhere); err != nil || string(content) != "precious" {
		t.Errorf("elsewhere: %q, %v", content, err)
	}
}

func TestFileThatCannotBeMovedGrowsNoFurther(t *testing.T) {
	spec := shell(t, "seq 1 500; exit 3")
	spec.Log.MaxBytes, spec.Log.Keep = 1000, 1
	if err := os.MkdirAll(filepath.Join(spec.Log.Directory, "stdout.1", "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := run(t, spec).end()
	if size := len(said(t, spec, "stdout")); size > 1000 || got.DroppedBytes != int64(1892-size) || *got.Exit.Code != 3 {
		t.Errorf("%d bytes, %+v", size, got)
	}
}

func TestLastLinesOfStderrArePrintable(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   []string
	}{
		"the last five":    {"seq 1 100 >&2", []string{"96", "97", "98", "99", "100"}},
		"none":             {"echo only out", nil},
		"empty lines":      {`printf '\n\na\n\n \nb\n\n' >&2`, []string{"a", "b"}},
		"escapes":          {`printf '\033[31mred\033[0m\a\tx\177\n' >&2`, []string{"[31mred[0m x"}},
		"a progress bar":   {`printf '10%%\r50%%\r100%%\r\n' >&2`, []string{"100%"}},
		"no text":          {`printf '\377\376\000\001ok\302\n' >&2`, []string{"\uFFFDok\uFFFD"}},
		"other scripts":    {`printf 'größer Ελλάδα\n' >&2`, []string{"größer Ελλάδα"}},
		"bidi and joiners": {`printf 'a\342\200\256b\342\200\213c\n' >&2`, []string{"abc"}},
		"no line break":    {"head -c 100000 /dev/zero | tr '\\0' x >&2", []string{strings.Repeat("x", 8<<10)}},
		"a long line, then": {
			"head -c 100000 /dev/zero | tr '\\0' x >&2; echo >&2; echo end >&2",
			[]string{"end"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, shell(t, test.script)).end().Stderr
			if len(got) != len(test.want) {
				t.Fatalf("%q: want %q", got, test.want)
			}
			for i, line := range test.want {
				if got[i] != line {
					t.Errorf("line %d: %q: want %q", i, got[i], line)
				}
			}
		})
	}
}

func TestGarbageOnStderrIsCopiedAsItIs(t *testing.T) {
	spec := shell(t, "head -c 3000000 /dev/urandom | tee $COPY >&2")
	copied := filepath.Join(spec.Log.Directory, "copy")
	spec.Environment = append(spec.Environment, "COPY="+copied)
	run(t, spec).end()
	want, err := os.ReadFile(copied)
	if err != nil || len(want) != 3000000 || said(t, spec, "stderr") != string(want) {
		t.Errorf("what was copied differs; %v", err)
	}
}

// The keeper's starter has a limit of file sizes, which is not the engine's.
func TestSoftLimitsAreRaised(t *testing.T) {
	spec := shell(t, "echo $(ulimit -f) $(ulimit -t)-$(ulimit -s)-$(ulimit -v)")
	run(t, spec, func(cmd *exec.Cmd) {
		cmd.Args = []string{"sh", "-c", `ulimit -S -f 10; ulimit -S -t 5; ulimit -S -s 1000; ulimit -S -v 4000000; ulimit -S -n 64; exec "$0" a1`, program}
		cmd.Path = "/bin/sh"
	}).end()
	if got := said(t, spec, "stdout"); got != strings.Replace("unlimited X-8192-unlimited\n", "X", "unlimited", 1) {
		t.Errorf("%q", got)
	}
}
