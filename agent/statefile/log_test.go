package statefile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const block = 4096

func engine(id string) *bursarv1.Allocation {
	return &bursarv1.Allocation{
		Id: id, HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, Labels: map[string]string{"user": "alice"},
		Process: &bursarv1.Process{Pid: 42, StartTime: 7, BootId: "boot-1"},
	}
}

// with returns a state with these engines, which are in the order of their ids.
func with(ids ...string) statefile.State {
	s := statefile.State{HostID: "h1", Snapshot: tracker.Snapshot{Epoch: 7, BootID: "boot-1"}}
	for _, id := range ids {
		s.Engines = append(s.Engines, engine(id))
	}
	return s
}

func begin(t *testing.T, dir *statefile.Dir, s statefile.State) {
	t.Helper()
	if err := dir.Begin(s); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, dir *statefile.Dir, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := dir.Append(tracker.Change{Engines: []*bursarv1.Allocation{engine(id)}}); err != nil {
			t.Fatal(err)
		}
	}
}

func loaded(t *testing.T, dir *statefile.Dir, want statefile.State) {
	t.Helper()
	got, err := dir.Load()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
}

// logOf is the path of the only log.
func logOf(t *testing.T, dir *statefile.Dir) string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(filepath.Dir(dir.File()), "state-*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs: %v, %v", logs, err)
	}
	return logs[0]
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func rewrite(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestChangesAreLoaded(t *testing.T) {
	dir := open(t, t.TempDir())
	s := state() // with engine a and the end of b
	begin(t, dir, s)
	end := &bursarv1.EngineEnd{AllocationId: "a", Reason: "process ended"}
	for _, c := range []tracker.Change{
		{Engines: []*bursarv1.Allocation{engine("d"), engine("c")}},
		{Ended: []*bursarv1.EngineEnd{end}, Gone: []string{"b", "never was"}},
		{Engines: []*bursarv1.Allocation{engine("b")}, Gone: []string{"c"}},
	} {
		if err := dir.Append(c); err != nil {
			t.Fatal(err)
		}
	}
	s.Engines, s.Ended = []*bursarv1.Allocation{engine("b"), engine("d")}, []*bursarv1.EngineEnd{end}
	loaded(t, dir, s)
	begin(t, dir, with("e"))
	loaded(t, dir, with("e"))
	if content := read(t, logOf(t, dir)); len(content) > 0 {
		t.Errorf("a new log has %q", content)
	}
}

func TestNothingIsAppendedWithoutALog(t *testing.T) {
	dir := open(t, t.TempDir())
	for name, save := range map[string]func(statefile.State) error{"first": func(statefile.State) error { return nil }, "saved": dir.Save} {
		if err := save(with()); err != nil {
			t.Fatal(err)
		}
		if err := dir.Append(tracker.Change{Gone: []string{"a"}}); !errors.Is(err, statefile.ErrFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An agent of the version before logs reads the file of a Save, and refuses a file that has a log.
func TestOldAgentsReadWhatIsAllThereIsAndRefuseWhatIsNot(t *testing.T) {
	dir := open(t, t.TempDir())
	begin(t, dir, with("a"))
	if content := read(t, dir.File()); !bytes.HasPrefix(content, []byte(`{"version":2,`)) {
		t.Errorf("with a log: %s", content)
	}
	appendTo(t, dir, "b")
	if err := dir.Save(with("a", "b")); err != nil {
		t.Fatal(err)
	}
	if content := read(t, dir.File()); !bytes.HasPrefix(content, []byte(`{"version":1,`)) || bytes.Contains(content, []byte(`"log"`)) {
		t.Errorf("without one: %s", content)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir.File()), "*")); len(left) != 2 {
		t.Errorf("files: %v, want the state and the lock", left)
	}
}

// The size of a change's record does not grow with the number of engines, and the log is bounded.
func TestAChangeIsOneBlockHoweverManyEnginesThereAre(t *testing.T) {
	for _, engines := range []int{0, 2000} {
		dir := open(t, t.TempDir())
		var ids []string
		for i := range engines {
			ids = append(ids, fmt.Sprintf("%04d", i))
		}
		begin(t, dir, with(ids...))
		before, log, writes := read(t, dir.File()), logOf(t, dir), 0
		for ; dir.Append(tracker.Change{Engines: []*bursarv1.Allocation{engine("new")}}) == nil; writes++ {
			if size := len(read(t, log)); size != (writes+1)*block {
				t.Fatalf("%d bytes after %d changes", size, writes+1)
			}
		}
		if !bytes.Equal(before, read(t, dir.File())) {
			t.Error("the file was written")
		}
		if most := max(16*block, 9*len(before)); writes*block > most || writes < 16 {
			t.Errorf("%d engines: the log took %d changes", engines, writes)
		}
		loaded(t, dir, with(append(ids, "new")...))
	}
}

// After a crash during the write of a record, all earlier records are intact.
func TestRecordThatWasBeingWrittenIsCutOff(t *testing.T) {
	dir := open(t, t.TempDir())
	begin(t, dir, with("a"))
	appendTo(t, dir, "b", "c")
	log := logOf(t, dir)
	whole := read(t, log)
	text := bytes.LastIndexByte(bytes.TrimRight(whole, " \n"), '}') // the last byte that counts
	for at := block; at <= text; at++ {
		want := with("a", "b")
		want.CutOff = at - block
		rewrite(t, log, whole[:at])
		loaded(t, dir, want)
	}
	half := (block + text) / 2
	for name, last := range map[string][]byte{
		"zeros": make([]byte, block), "other bytes": bytes.Repeat([]byte("0 \n\xff"), block/4),
		"zeros at its beginning": slices.Concat(make([]byte, 64), whole[block+64:]),
		"zeros at its end":       slices.Concat(whole[block:half], make([]byte, 2*block-half)),
	} {
		want := with("a", "b")
		want.CutOff = block
		rewrite(t, log, append(bytes.Clone(whole[:block]), last...))
		t.Log(name)
		loaded(t, dir, want)
	}
}

func TestDamageBeforeTheLastRecordIsFound(t *testing.T) {
	dir := open(t, t.TempDir())
	begin(t, dir, with("a"))
	appendTo(t, dir, "b", "c", "d")
	log := logOf(t, dir)
	whole := read(t, log)
	spoil := func(what string, content []byte) {
		t.Helper()
		rewrite(t, log, content)
		var damaged *statefile.DamagedError
		if got, err := dir.Load(); !errors.As(err, &damaged) {
			t.Fatalf("%s: %v, %+v", what, err, got)
		}
	}
	for at := range len(bytes.TrimRight(whole[:block], " \n")) {
		broken := bytes.Clone(whole)
		broken[at] ^= 2
		spoil(fmt.Sprintf("byte %d", at), broken)
	}
	spoil("a record is gone", slices.Delete(bytes.Clone(whole), 0, block))
	spoil("one in the middle is", slices.Delete(bytes.Clone(whole), block, 2*block))
	spoil("one is there twice", slices.Concat(whole[:block], whole))
	spoil("a page is zeros", slices.Concat(whole[:block], make([]byte, block), whole[2*block:]))
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	var damaged *statefile.DamagedError
	if _, err := dir.Load(); !errors.As(err, &damaged) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the log is gone: %v", err)
	}
}

// After any damage to a log, the loaded state is refused or is the stored one, maybe without the
// last changes: every engine in it existed at one moment.
func TestDamagedLogIsNeverAnotherState(t *testing.T) {
	dir := open(t, t.TempDir())
	states := []statefile.State{with("a"), with("a", "b"), with("a", "b", "c"), with("a", "b", "c", "d")}
	begin(t, dir, states[0])
	appendTo(t, dir, "b", "c", "d")
	log := logOf(t, dir)
	whole := read(t, log)
	rapid.Check(t, func(r *rapid.T) {
		broken := bytes.Clone(whole)
		for range rapid.IntRange(1, 4).Draw(r, "damages") {
			broken = damage(r, broken)
		}
		rewrite(t, log, broken)
		got, err := dir.Load()
		got.CutOff = 0
		if !refused(t, err) && !slices.ContainsFunc(states, func(s statefile.State) bool { return cmp.Equal(s, got, protocmp.Transform()) }) {
			r.Fatalf("read as another state: %+v", got)
		}
	})
}

// alone runs the rest of the test in a separate process. In the parent it returns false after the
// test.
func alone(t *testing.T) bool {
	t.Helper()
	const inside = "BURSAR_TEST_ALONE"
	if os.Getenv(inside) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=yes")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("alone: %v\n%s", err, out)
	}
	return false
}

// A disk that is full in the middle of a record leaves nothing of it before the next one, which
// fits again.
func TestFullDiskLeavesNoHalfRecord(t *testing.T) {
	if !alone(t) {
		return
	}
	dir := open(t, t.TempDir())
	begin(t, dir, with("a"))
	appendTo(t, dir, "b")
	limit := func(most uint64) { // of any file
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: unix.RLIM_INFINITY}); err != nil {
			t.Fatal(err)
		}
	}
	for _, room := range []uint64{0, 1, 100, block - 1} {
		limit(block + room)
		if err := dir.Append(tracker.Change{Engines: []*bursarv1.Allocation{engine("lost")}}); err == nil || errors.Is(err, statefile.ErrFull) {
			t.Errorf("%d bytes of room: %v", room, err)
		}
		if size := len(read(t, logOf(t, dir))); size != block {
			t.Errorf("%d bytes of room: the log has %d bytes", room, size)
		}
		limit(100)
		if err := dir.Begin(with("a", "b", "lost")); err == nil {
			t.Error("written where there is no room")
		}
		loaded(t, dir, with("a", "b"))
	}
	limit(unix.RLIM_INFINITY)
	appendTo(t, dir, "c")
	loaded(t, dir, with("a", "b", "c"))
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir.File()), "*")); len(left) != 3 {
		t.Errorf("files: %v, want the state, its log and the lock", left)
	}
}

func TestLogThatSomebodyElseWroteToIsWrittenAnew(t *testing.T) {
	for name, spoil := range map[string]func(log string) error{
		"longer":  func(log string) error { return os.WriteFile(log, make([]byte, 3*block), 0o600) },
		"shorter": func(log string) error { return os.Truncate(log, 7) },
		"gone":    os.Remove,
		"a link": func(log string) error {
			return errors.Join(os.Rename(log, log+"x"), os.Symlink(log+"x", log))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := open(t, t.TempDir())
			begin(t, dir, with("a"))
			appendTo(t, dir, "b")
			if err := spoil(logOf(t, dir)); err != nil {
				t.Fatal(err)
			}
			if err := dir.Append(tracker.Change{Engines: []*bursarv1.Allocation{engine("c")}}); err == nil {
				t.Error("appended to it")
			}
			begin(t, dir, with("a", "b", "c"))
			appendTo(t, dir, "d")
			loaded(t, dir, with("a", "b", "c", "d"))
		})
	}
}

func TestLogIsSetAsideWithItsFile(t *testing.T) {
	dir := open(t, t.TempDir())
	begin(t, dir, with("a"))
	appendTo(t, dir, "b")
	log := logOf(t, dir)
	aside, err := dir.SetAside(state().SavedAt)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(log + strings.TrimPrefix(aside, dir.File())); err != nil {
		t.Error(err)
	}
	if _, err := dir.Load(); !errors.Is(err, statefile.ErrNone) {
		t.Errorf("after it was set aside: %v", err)
	}
}

// Any bytes that are read as a log give an error of a known type or a valid state.
func FuzzLog(f *testing.F) {
	dir, err := statefile.Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = dir.Close() })
	if err := dir.Begin(with("a")); err != nil {
		f.Fatal(err)
	}
	logs, _ := filepath.Glob(filepath.Join(filepath.Dir(dir.File()), "state-*.log"))
	if err := dir.Append(tracker.Change{Engines: []*bursarv1.Allocation{engine("b")}, Gone: []string{"a"}}); err != nil {
		f.Fatal(err)
	}
	content, err := os.ReadFile(logs[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add(append(content, content...))
	f.Fuzz(func(t *testing.T, content []byte) {
		rewrite(t, logs[0], content)
		s, err := dir.Load()
		if !refused(t, err) {
			s.CutOff = 0
			sound(t, s)
		}
	})
}
