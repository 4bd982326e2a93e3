package agent_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// touched is what the engines of these tests take, in bytes.
const touched = 64 << 20

// beEngine takes memory of its own step by step, or fills the page cache with a file and maps it.
// It takes a step for every line that it reads and says when it has.
func beEngine(how string) int {
	take := func() error { return fillCache(how) }
	if how == "own" {
		take = takeMemory
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if take() != nil {
			return 1
		}
		if _, err := os.Stdout.WriteString("done\n"); err != nil {
			return 1
		}
	}
	return 0
}

func takeMemory() error {
	_, err := unix.Mmap(-1, 0, touched/2, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	return err
}

// fillCache writes a file in small pieces, so that no memory of the process's own goes into that.
func fillCache(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for piece := make([]byte, 64<<10); err == nil; {
		var size int64
		if size, err = file.Seek(0, io.SeekCurrent); size >= touched {
			break
		}
		_, err = file.Write(piece)
	}
	if err != nil {
		return err
	}
	_, err = unix.Mmap(int(file.Fd()), 0, touched, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	return err
}

// stepper is an engine that takes memory when it is told to.
type stepper struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func (e *stepper) step() {
	e.t.Helper()
	if _, err := io.WriteString(e.in, "\n"); err != nil {
		e.t.Fatal(err)
	}
	if _, err := e.out.ReadString('\n'); err != nil {
		e.t.Fatal(err)
	}
}

// stepper confirms such an engine.
func (s *subject) stepper(memory int64, how string) (*bursarv1.Allocation, *stepper) {
	s.t.Helper()
	a := s.allocate(memory)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), asEngine+"="+how)
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := s.confirm(a.GetId(), cmd.Process.Pid); err != nil {
		s.t.Fatal(err)
	}
	return a, &stepper{t: s.t, in: in, out: bufio.NewReader(out)}
}

// baseline is what an engine holds that has not done anything yet.
func (s *subject) baseline(id string) int64 {
	s.t.Helper()
	s.coordinator.await("a first report", func() bool { return s.coordinator.allocations[id].GetUnreclaimableBytes() > 0 })
	s.ticks(3)
	s.coordinator.mu.Lock()
	defer s.coordinator.mu.Unlock()
	return s.coordinator.allocations[id].GetUnreclaimableBytes()
}

// unreclaimable waits until an engine is reported to hold so much, more or less a sixth of what
// the tests take.
func (s *subject) unreclaimable(id string, want int64) {
	s.t.Helper()
	s.coordinator.await("the memory is reported", func() bool {
		got := s.coordinator.allocations[id].GetUnreclaimableBytes()
		return got >= want-touched/6 && got <= want+touched/6
	})
}

// What an engine touches moves from promised to taken, and nothing is counted twice: the rest of
// the promise stays.
func TestEngineThatTouchesItsMemorySlowly(t *testing.T) {
	s := run(t)
	a, engine := s.stepper(900, "own")
	if _, err := s.Allocate(t.Context(), request(200)); err == nil {
		t.Error("the memory that an engine has not touched yet was granted to another")
	}
	base := s.baseline(a.GetId())
	for taken := int64(touched / 2); taken <= touched; taken += touched / 2 {
		engine.step()
		s.unreclaimable(a.GetId(), base+taken)
		s.meter.available.Store(1000*mib - taken) // as the machine would show it
		s.ticks(2)
		if _, err := s.Allocate(t.Context(), request(200)); err == nil {
			t.Errorf("with %d bytes touched, what is left of the promise was granted to another", taken)
		}
	}
	r, err := s.Allocate(t.Context(), request(90))
	if err != nil {
		t.Errorf("what is beyond the promise was not granted: %v, %v", r, err)
	}
}

// Page cache is no engine's: the kernel takes it back for any process that needs memory, and the
// promise to the engine stays.
func TestEngineThatFillsThePageCache(t *testing.T) {
	s := run(t)
	a, engine := s.stepper(900, filepath.Join(t.TempDir(), "file"))
	base := s.baseline(a.GetId())
	engine.step()
	s.coordinator.await("the mapped file is seen", func() bool {
		return s.coordinator.allocations[a.GetId()].GetMeasured().GetMemoryBytes() >= touched
	})
	s.unreclaimable(a.GetId(), base)
	if _, err := s.Allocate(t.Context(), request(200)); err == nil {
		t.Error("the promise to an engine that filled the page cache was granted to another")
	}
	if _, err := s.Allocate(t.Context(), request(90)); err != nil {
		t.Errorf("what is beyond the promise was not granted: %v", err)
	}
}
