package output

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/output/offsets"
	"github.com/bursar/bursar/agent/output/reading"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// numbers writes the numbers up to n as seq does.
func numbers(n int) string {
	var text strings.Builder
	for i := 1; i <= n; i++ {
		text.WriteString(strconv.Itoa(i) + "\n")
	}
	return text.String()
}

func TestOutputOfARealEngine(t *testing.T) {
	h := newHost(t)
	keep := int32(100)
	folder, _ := h.engine(launch.Logs{MaxBytes: 1 << 20, Keep: &keep}, "seq 1 3000000; printf 'a\\0b\\377' >&2")
	r := h.request(folder)
	r.Follow = true
	want := numbers(3000000)
	follower := h.open(r)
	if !follower.Counted() {
		t.Error("nobody has counted")
	}
	if got, err := all(follower); err != nil || sha256.Sum256([]byte(got)) != sha256.Sum256([]byte(want)) {
		t.Errorf("%d bytes, %v: want %d bytes", len(got), err, len(want))
	}
	for from, want := range map[int64]string{0: want, 20_000_001: want[20_000_001:], int64(len(want)): "", 1 << 50: ""} {
		r.From = from
		if got, err := h.read(r); err != nil || got != want {
			t.Errorf("from %d: %d bytes, %v: want %d", from, len(got), err, len(want))
		}
	}
	r.From, r.Follow = 0, false
	for _, lines := range []int{1, 2, 100_000} {
		r.TailLines = lines
		var last []string
		for i := 3_000_000 - lines + 1; i <= 3_000_000; i++ {
			last = append(last, strconv.Itoa(i)+"\n")
		}
		if got, err := h.read(r); err != nil || got != strings.Join(last, "") {
			t.Errorf("the last %d lines: %d bytes, %v", lines, len(got), err)
		}
	}
	r.TailLines, r.TailBytes = 0, 5
	if got, err := h.read(r); err != nil || got != "0000\n" {
		t.Errorf("the last 5 bytes: %q, %v", got, err)
	}
	r.TailBytes, r.Stream = 0, Stderr
	if got, err := h.read(r); err != nil || got != "a\x00b\xff" {
		t.Errorf("stderr: %q, %v", got, err)
	}
}

// Files that the keeper has removed are a gap, and the bytes after it have their offsets.
func TestRemovedFilesAreAGap(t *testing.T) {
	h := newHost(t)
	keep := int32(1)
	folder, _ := h.engine(launch.Logs{MaxBytes: 100_000, Keep: &keep}, "seq 1 100000")
	r := h.request(folder)
	r.Follow = true
	want := numbers(100000)
	var from int64
	f := h.open(r)
	for {
		part, err := f.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if part.Offset != from || !part.Gap() && string(part.Data) != want[part.Offset:part.To] {
			t.Fatalf("%d to %d, after %d", part.Offset, part.To, from)
		}
		from = part.To
	}
	if from != int64(len(want)) {
		t.Errorf("ends at %d: want %d", from, len(want))
	}
	older, err := os.ReadFile(filepath.Join(folder, "stdout.1"))
	newest, err2 := os.ReadFile(filepath.Join(folder, "stdout"))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	there := string(older) + string(newest)
	if got, err := h.read(r); err != nil || got != fmt.Sprintf("[0-%d]", len(want)-len(there))+there {
		t.Errorf("%.40q…, %v", got, err)
	}
}

// What a full disk has not taken is a gap, also at the end.
func TestBytesThatAFullDiskDroppedAreAGap(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("want root, to mount a small tmpfs")
	}
	h := newHost(t)
	folder := h.folder("small")
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=1m,mode=777"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	first, second := filepath.Join(h.dir, "first"), filepath.Join(h.dir, "second")
	if err := errors.Join(syscall.Mkfifo(first, 0o666), syscall.Mkfifo(second, 0o666)); err != nil {
		t.Fatal(err)
	}
	h.own(first, second)
	h.engine(launch.Logs{Directory: folder}, "seq 1 1000000; read x < "+first+"; seq 1 10; read x < "+second+"; head -c 2000000 /dev/zero")
	tell := func(fifo string) {
		if err := os.WriteFile(fifo, []byte("\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := numbers(1000000)
	r := h.request(folder)
	r.Follow = true
	f := h.open(r)
	tell(first) // it has written all, and the keeper has read nearly all
	var got strings.Builder
	for got.Len() < 500_000 {
		part, err := f.Next()
		if err != nil || part.Gap() {
			t.Fatal(part, err)
		}
		got.Write(part.Data)
	}
	// Room again: cut what is there.
	if err := os.Truncate(filepath.Join(folder, "stdout"), 0); err != nil {
		t.Fatal(err)
	}
	tell(second)
	at, end, gaps := int64(got.Len()), int64(len(want)+len(numbers(10))+2_000_000), 0
	for {
		part, err := f.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || part.Offset != at {
			t.Fatal(part.Offset, at, err)
		}
		if at = part.To; part.Gap() {
			gaps++
		} else if part.To <= int64(len(want)) && string(part.Data) != want[part.Offset:part.To] {
			t.Fatalf("wrong bytes at %d", part.Offset)
		}
	}
	if at != end || gaps == 0 {
		t.Errorf("ends at %d with %d gaps: want %d", at, gaps, end)
	}
}

// A keeper that was killed has said nothing of the end: its lock tells.
func TestTheEndAfterTheKeeperWasKilled(t *testing.T) {
	h := newHost(t)
	folder, keeper := h.engine(launch.Logs{}, "echo hello; sleep 1000")
	r := h.request(folder)
	r.Follow = true
	f := h.open(r)
	if part, err := f.Next(); err != nil || string(part.Data) != "hello\n" {
		t.Fatal(part, err)
	}
	if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.direct.Reap()
	if part, err := f.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%v, %v", part, err)
	}
	h.ends(f)
}

// Folders of a keeper of an older version count from the oldest file that is there.
func TestFoldersWithoutOffsets(t *testing.T) {
	h := newHost(t)
	folder := h.folder("old")
	h.write(filepath.Join(folder, "stdout.2"), "one\n")
	h.write(filepath.Join(folder, "stdout.1"), "two\n")
	h.write(filepath.Join(folder, "stdout"), "three\n")
	r := h.request(folder)
	if got, err := h.read(r); err != nil || got != "one\ntwo\nthree\n" {
		t.Errorf("%q, %v", got, err)
	}
	r.TailLines = 2
	if got, err := h.read(r); err != nil || got != "two\nthree\n" {
		t.Errorf("the last lines: %q, %v", got, err)
	}
	for i, name := range []string{"stdout.2", "stdout.1", "stdout"} {
		if err := os.Chtimes(filepath.Join(folder, name), time.Time{}, time.Unix(int64(1000*i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	r.TailLines = 0
	for since, want := range map[int64]string{-1: "one\ntwo\nthree\n", 500: "two\nthree\n", 1500: "three\n", 2500: ""} {
		r.Since = time.Unix(since, 0)
		if got, err := h.read(r); err != nil || got != want {
			t.Errorf("since %d: %q, %v: want %q", since, got, err, want)
		}
	}
	r.Since = time.Time{}
	r.From = 6
	if got, err := h.read(r); err != nil || got != "o\nthree\n" {
		t.Errorf("%q, %v", got, err)
	}
	r.From, r.Follow = 0, true
	f := h.open(r)
	if f.Counted() {
		t.Error("nobody has counted")
	}
	next := func(want string) {
		t.Helper()
		if part, err := f.Next(); err != nil || string(part.Data) != want {
			t.Fatalf("%q, %v: want %q", part.Data, err, want)
		}
	}
	next("one\n")
	next("two\n")
	next("three\n")
	// the old keeper rotates
	for i := 2; i >= 0; i-- {
		if err := os.Rename(filepath.Join(folder, offsets.Older("stdout", i)), filepath.Join(folder, offsets.Older("stdout", i+1))); err != nil {
			t.Fatal(err)
		}
	}
	h.write(filepath.Join(folder, "stdout"), "four\n")
	next("four\n")
	if at := f.At(); at != 19 {
		t.Errorf("at %d", at)
	}
	if err := f.control.SetWriteDeadline(time.Unix(1, 0)); err != nil { // Open was long ago
		t.Fatal(err)
	}
	f.EngineEnded()
	if part, err := f.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%v, %v", part, err)
	}
}

// A user may put anything into the folder: it costs the user's own output, in good time, and shows
// nobody else's.
func TestHostileFolders(t *testing.T) {
	secret := "another user's\n"
	elsewhere := ""
	cases := map[string]struct {
		plant func(h *host, folder string) error
		code  reading.Code
		text  string // if there is no error
	}{
		"link to a file": {func(h *host, folder string) error {
			return os.Symlink(elsewhere, filepath.Join(folder, "stdout"))
		}, Irregular, ""},
		"FIFO": {func(h *host, folder string) error { return syscall.Mkfifo(filepath.Join(folder, "stdout"), 0o666) }, Irregular, ""},
		"device": {func(h *host, folder string) error {
			return unix.Mknod(filepath.Join(folder, "stdout"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5)))
		}, Irregular, ""},
		"directory": {func(h *host, folder string) error { return os.Mkdir(filepath.Join(folder, "stdout"), 0o700) }, Irregular, ""},
		"hard link to another's file": {func(h *host, folder string) error {
			return os.Link(elsewhere, filepath.Join(folder, "stdout"))
		}, Stranger, ""},
		"folder is a link to another's": {func(h *host, folder string) error {
			return errors.Join(os.Remove(folder), os.Symlink(filepath.Dir(elsewhere), folder))
		}, Stranger, ""},
		"folder is gone": {func(h *host, folder string) error { return os.Remove(folder) }, Gone, ""},
		"folder is a file": {func(h *host, folder string) error {
			return errors.Join(os.Remove(folder), os.WriteFile(folder, nil, 0o600))
		}, Gone, ""},
		"folder is a FIFO": {func(h *host, folder string) error {
			return errors.Join(os.Remove(folder), syscall.Mkfifo(folder, 0o666))
		}, Gone, ""},
		"folder is closed": {func(h *host, folder string) error {
			return errors.Join(os.Chown(folder, 0, 0), os.Chmod(folder, 0o700))
		}, Denied, ""},
		"empty folder":         {func(h *host, folder string) error { return nil }, 0, ""},
		"offsets are a FIFO":   {func(h *host, folder string) error { return syscall.Mkfifo(side(folder), 0o666) }, Irregular, ""},
		"offsets are a link":   {func(h *host, folder string) error { return os.Symlink("/etc/shadow", side(folder)) }, Irregular, ""},
		"offsets of another":   {offset(0, "bursar-offsets 1 a2 3\n"), Taken, ""},
		"offsets are shared":   {offset(4, "bursar-offsets 1 a1 3\nf INODE 0 0 0\nx 0 0 4 0\n"), Taken, ""},
		"no header":            {offset(4, "f 1 0 0 0\n"), Damaged, ""},
		"negative":             {offset(4, "bursar-offsets 1 a1 3\nf INODE -1 0 0\n"), Damaged, ""},
		"huge":                 {offset(4, "bursar-offsets 1 a1 3\nf INODE 9223372036854775807 0 0\n"), Damaged, ""},
		"overflow":             {offset(4, "bursar-offsets 1 a1 3\nf INODE 99999999999999999999 0 0\n"), Damaged, ""},
		"not sorted":           {offset(4, "bursar-offsets 1 a1 3\nf INODE 0 9 0\nj INODE 2 5 0\n"), Damaged, ""},
		"much kept":            {offset(4, "bursar-offsets 1 a1 1000000000\n"), Damaged, ""},
		"a long line":          {offset(4, "bursar-offsets 1 a1 3\n"+strings.Repeat("f", 5000)), Damaged, ""},
		"too much":             {offset(4, "bursar-offsets 1 a1 3\n"+strings.Repeat("f 1 0 0 0\n", 300_000)), Damaged, ""},
		"zeros":                {offset(4, strings.Repeat("\x00", 100_000)), Damaged, ""},
		"offsets are empty":    {offset(4, ""), 0, "abcd"},
		"half a line":          {offset(4, "bursar-offsets 1 a1 3\nf INODE 0 0 0\nj INO"), 0, "abcd"},
		"an inode of nobody":   {offset(4, "bursar-offsets 1 a1 3\nf 5 0 0 0\ne 0 0 4 0\n"), 0, "[0-4]"},
		"overlapping":          {offset(4, "bursar-offsets 1 a1 3\nf INODE 0 0 0\nj INODE 0 2 0\nj INODE 1 3 0\n"), 0, "[0-2]a" + "bcd"},
		"far away":             {offset(4, "bursar-offsets 1 a1 3\nf INODE 0 2000000000000000000 0\n"), 0, "[0-2000000000000000000]abcd"},
		"many segments":        {offset(4, "bursar-offsets 1 a1 3\n"+strings.Repeat("f 7 0 9 0\n", 150_000)+"e 0 0 10 0\n"), 0, "[0-10]"},
		"position far away":    {offset(4, "bursar-offsets 1 a1 3\nf INODE 2000000000000000000 0 0\ne 0 0 1 0\n"), 0, "[0-1]"},
		"more than was kept":   {offset(4, "bursar-offsets 1 a1 3\nf INODE 0 0 0\ne 0 0 2000000000000000000 0\n"), 0, "abcd[4-2000000000000000000]"},
		"less than is there":   {offset(4, "bursar-offsets 1 a1 3\nf INODE 0 0 0\ne 0 0 2 0\n"), 0, "ab"},
		"a line after the end": {offset(4, "bursar-offsets 1 a1 3\nf INODE 0 0 0\ne 0 0 2 0\nf INODE 0 2 0\n"), Damaged, ""},
	}
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
	h := newHost(t)
	public := filepath.Join(h.dir, "public")
	elsewhere = filepath.Join(public, "stdout")
	if err := errors.Join(os.Mkdir(public, 0o755), os.WriteFile(elsewhere, []byte(secret), 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			folder := h.folder(strings.ReplaceAll(name, " ", "-"))
			if err := test.plant(h, folder); err != nil {
				t.Fatal(err)
			}
			for _, r := range []Request{{}, {Follow: true}, {TailLines: 100}, {Since: time.Unix(1, 0)}} {
				request := h.request(folder)
				request.Follow, request.TailLines, request.Since = r.Follow, r.TailLines, r.Since
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				reader, err := h.opener.Open(ctx, request)
				got := ""
				if err == nil {
					reader.EngineEnded()
					got, err = all(reader)
				}
				wrong, is := errors.AsType[*Error](err)
				if test.code != 0 && (!is || wrong.Code != test.code) || test.code == 0 && err != nil {
					t.Errorf("%+v: %v: want code %q", r, err, test.code)
				}
				if whole := r.TailLines == 0 && r.Since.IsZero(); test.code == 0 && whole && got != test.text || strings.Contains(got, secret) {
					t.Errorf("%+v: %.60q: want %q", r, got, test.text)
				}
			}
		})
	}
}

func side(folder string) string { return filepath.Join(folder, offsets.Name("stdout")) }

// offset plants a file of output and one of offsets, in which INODE is the file's.
func offset(size int, text string) func(h *host, folder string) error {
	return func(h *host, folder string) error {
		h.write(filepath.Join(folder, "stdout"), "abcd"[:size])
		var stat unix.Stat_t
		if err := unix.Stat(filepath.Join(folder, "stdout"), &stat); err != nil {
			return err
		}
		h.write(side(folder), strings.ReplaceAll(text, "INODE", strconv.FormatUint(stat.Ino, 10)))
		return nil
	}
}

func TestALogOf100GB(t *testing.T) {
	h := newHost(t)
	folder := h.folder("large")
	h.write(filepath.Join(folder, "stdout"), "")
	const size = 100 << 30
	if err := os.Truncate(filepath.Join(folder, "stdout"), size); err != nil {
		t.Fatal(err)
	}
	r := h.request(folder)
	r.From = size - 3
	if got, err := h.read(r); err != nil || got != "\x00\x00\x00" {
		t.Errorf("%q, %v", got, err)
	}
	r.From, r.TailLines = 0, 10
	f := h.open(r)
	if f.At() != size-reading.MaxTailScan {
		t.Errorf("the last lines begin at %d", f.At())
	}
	// It shrinks while it is read.
	if part, err := f.Next(); err != nil || len(part.Data) != reading.MaxData {
		t.Error(len(part.Data), err)
	}
	if err := os.Truncate(filepath.Join(folder, "stdout"), 5); err != nil {
		t.Fatal(err)
	}
	at, gone := f.At(), int64(0)
	for {
		part, err := f.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || part.Offset != at {
			t.Fatal(part.Offset, at, err)
		}
		if at = part.To; part.Gap() {
			gone += part.To - part.Offset
		}
	}
	if at != size || gone < reading.MaxTailScan/2 {
		t.Errorf("ends at %d, %d bytes were gone", at, gone)
	}
}

// Since leaves out what was written before a pause.
func TestSince(t *testing.T) {
	h := newHost(t)
	folder := h.folder("times")
	plant := offset(4, "bursar-offsets 1 a1 3\nf INODE 0 0 1000000\nm INODE 2 2 2000000\nm INODE 3 3 3000000\n")
	if err := plant(h, folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(folder, "stdout"), time.Time{}, time.Unix(3500, 0)); err != nil {
		t.Fatal(err)
	}
	for since, want := range map[int64]string{1: "abcd", 1500: "abcd", 2000: "cd", 2500: "cd", 3200: "d", 4000: ""} {
		r := h.request(folder)
		r.Since = time.Unix(since, 0)
		if got, err := h.read(r); err != nil || got != want {
			t.Errorf("since %d: %q, %v: want %q", since, got, err, want)
		}
	}
}
