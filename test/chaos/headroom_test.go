package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The headroom tests work in a cgroup with a limit of its own if one can be made, so that they do
// not see what else this machine does, and headroom can be compared with itself over time.
// Otherwise only each sample can be compared with itself.
const (
	groupLimit = 768 << 20
	entitled   = 384 << 20
	// tolerance is how much the headroom may change while an engine uses what it was promised: by
	// what the test binary that plays the engine uses for itself, and by the lag of the kernel's
	// counters of a cgroup (64 pages for each processor).
	tolerance = 12 << 20
	step      = 96 << 20
)

// TestHeadroomIsRightWhileAnEngineTouchesItsMemorySlowly: what was promised and is not touched yet
// counts as used; what is touched is measured as used; nothing counts in neither way or in both,
// at any moment.
func TestHeadroomIsRightWhileAnEngineTouchesItsMemorySlowly(t *testing.T) {
	h := startMeasured(t)
	for touched := int64(step); touched <= entitled-step; touched += step {
		h.engine.tell("touch %d", step>>20)
		h.expectMeasured(fmt.Sprintf("%d MiB touched", touched>>20), touched)
	}
	h.expectRefusalBeyondHeadroom()
	h.engine.kill()
	h.expectEmpty(soon)
}

// TestHeadroomIsRightWhileAnEngineFillsThePageCache: the kernel can take page cache back. So it
// counts neither as used by the machine nor as touched by the engine, whose promise stays.
func TestHeadroomIsRightWhileAnEngineFillsThePageCache(t *testing.T) {
	h := startMeasured(t)
	file := filepath.Join(diskDir(t), "cache")
	for n := range 3 {
		h.engine.tell("write %s-%d %d", file, n, step>>20)
		h.expectMeasured(fmt.Sprintf("%d MiB of files written and read", (n+1)*step>>20), 0)
	}
	h.expectRefusalBeyondHeadroom()
	h.engine.kill()
	h.expectEmpty(soon)
}

// measured is a host with one engine whose use of memory is followed.
type measured struct {
	*cluster
	engine     *engine
	allocation string
	grouped    bool
	idle       int64 // unreclaimable bytes of the engine before it touched anything
	base       int64 // headroom then
}

func startMeasured(t *testing.T) *measured {
	t.Helper()
	group, directory := memoryGroup(t, groupLimit)
	s := settings{}
	if group != "" {
		s.agent = "cgroup: " + group + "\n"
	}
	h := &measured{cluster: startCluster(t, s), grouped: group != ""}
	h.engine = startEngine(t)
	if h.grouped {
		if err := os.WriteFile(filepath.Join(directory, "cgroup.procs"), []byte(strconv.Itoa(h.engine.pid())), 0o600); err != nil {
			t.Fatal(err)
		}
	} else {
		t.Log("no cgroup can be made here: each sample is compared with itself alone")
	}
	h.allocation = h.allocate(request("alice", entitled, 100)).GetId()
	h.confirm(h.allocation, h.engine)
	eventually(t, shown, "the engine is measured", func() error {
		// Not how much: what it touched before it came into the cgroup is another's.
		if h.get(h.allocation).GetMeasured() == nil {
			return errors.New("not yet")
		}
		return nil
	})
	// The first measurement may be of an engine that still starts: the base is taken from the
	// next.
	before := h.host().GetSample().GetSampleTime().AsTime()
	eventually(t, shown, "another sample", func() error {
		if !h.host().GetSample().GetSampleTime().AsTime().After(before) {
			return errors.New("not yet")
		}
		return nil
	})
	h.idle, h.base = h.get(h.allocation).GetUnreclaimableBytes(), h.host().GetHeadroomBytes()
	t.Logf("headroom %d MiB; the engine may use %d MiB, and uses %d", h.base>>20, entitled>>20, h.idle>>20)
	return h
}

// expectMeasured waits until a sample shows what the engine has touched, and checks the headroom
// of every sample on the way.
func (h *measured) expectMeasured(when string, touched int64) {
	h.t.Helper()
	samples := map[time.Time]bool{}
	eventually(h.t, shown, when, func() error {
		host := h.host()
		a := h.get(h.allocation)
		if again := h.host(); !proto.Equal(again.GetSample(), host.GetSample()) {
			return errors.New("between two samples")
		}
		h.checkSample(when, host, a)
		samples[host.GetSample().GetSampleTime().AsTime()] = true
		grown := a.GetUnreclaimableBytes() - h.idle
		if grown < touched-tolerance || grown > touched+tolerance || len(samples) < 2 {
			return fmt.Errorf("touched by the engine: %d MiB, measured: %d MiB, in %d samples", touched>>20, grown>>20, len(samples))
		}
		return nil
	})
}

// checkSample compares the headroom that is shown with what it must be by its own sample, and with
// what it was.
func (h *measured) checkSample(when string, host *bursarv1.Host, a *bursarv1.Allocation) {
	h.t.Helper()
	s := host.GetSample()
	promised := max(0, a.GetEntitled().GetMemoryBytes()-a.GetUnreclaimableBytes())
	if want := s.GetMemoryAvailableBytes() - s.GetMemorySafetyBytes() - promised; host.GetHeadroomBytes() != want {
		h.t.Errorf("%s: headroom %d, want available %d - safety %d - promised %d = %d",
			when, host.GetHeadroomBytes(), s.GetMemoryAvailableBytes(), s.GetMemorySafetyBytes(), promised, want)
	}
	if moved := host.GetHeadroomBytes() - h.base; h.grouped && (moved < -tolerance || moved > tolerance) {
		h.t.Errorf("%s: the headroom has moved by %d MiB, from %d to %d", when, moved>>20, h.base>>20, host.GetHeadroomBytes()>>20)
	}
}

// expectRefusalBeyondHeadroom asks for more than the headroom, and for less than the machine has
// available and the ledger has left.
func (h *measured) expectRefusalBeyondHeadroom() {
	h.t.Helper()
	r := h.bursar("hosts", "-o", "json")
	r.Expect(h.t, 0)
	list := &bursarv1.HostServiceListResponse{}
	if err := protojson.Unmarshal([]byte(r.Stdout), list); err != nil || len(list.GetHosts()) != 1 {
		h.t.Fatalf("hosts -o json: %v\n%s", err, r.Stdout)
	}
	host := list.GetHosts()[0]
	account := host.GetAccount()
	left := account.GetLimit().GetMemoryBytes() - account.GetUsed().GetMemoryBytes() - account.GetReserved().GetMemoryBytes()
	headroom, otherwise := host.GetHeadroomBytes(), min(left, host.GetSample().GetMemoryAvailableBytes())
	beyond := (headroom + otherwise) / 2
	if beyond < headroom+tolerance {
		h.t.Fatalf("nothing to show: headroom %d, available and left by the ledger %d", headroom, otherwise)
	}
	for _, from := range []struct {
		name string
		ask  func(*bursarv1.AllocateRequest) error
	}{
		{"agent", func(r *bursarv1.AllocateRequest) error {
			_, err := h.local.Allocations().Allocate(h.t.Context(), r)
			return err
		}},
		{"coordinator", func(r *bursarv1.AllocateRequest) error {
			_, err := h.remote.Allocations().Allocate(h.t.Context(), r)
			return err
		}},
	} {
		short, ok := refused(from.ask(request("alice", beyond, 0)))
		if !ok || len(short.GetShortfalls()) != 1 || short.GetShortfalls()[0].GetNote() != "measured" {
			h.t.Errorf("%d MiB from the %s: %v, want a refusal by measurement", beyond>>20, from.name, short)
		}
	}
	// What is within it is granted.
	h.release(h.allocate(request("alice", headroom/2, 0)).GetId())
}

// memoryGroup makes a cgroup with a limit, if this machine and this user can; else the name is
// empty.
func memoryGroup(t *testing.T, limit int64) (name, directory string) {
	t.Helper()
	name = fmt.Sprintf("/bursar-chaos-%d", os.Getpid())
	for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile("/proc/self/mounts")))) {
		fields := strings.Fields(line)
		var file string
		switch {
		case len(fields) < 4:
			continue
		case fields[2] == "cgroup" && strings.Contains(","+fields[3]+",", ",memory,"):
			file = "memory.limit_in_bytes"
		case fields[2] == "cgroup2":
			file = "memory.max"
		default:
			continue
		}
		directory = filepath.Join(fields[1], name)
		if os.Mkdir(directory, 0o750) != nil {
			continue
		}
		t.Cleanup(func() {
			eventually(t, 10*time.Second, "the cgroup is removed", func() error { return os.Remove(directory) })
		})
		if os.WriteFile(filepath.Join(directory, file), []byte(strconv.FormatInt(limit, 10)), 0o600) == nil {
			return name, directory
		}
	}
	return "", ""
}

// diskDir is a directory whose files are on a disk: those of one in memory are no page cache.
func diskDir(t *testing.T) string {
	t.Helper()
	for _, parent := range []string{os.TempDir(), "/var/tmp", "."} {
		var system unix.Statfs_t
		if unix.Statfs(parent, &system) != nil || system.Type == unix.TMPFS_MAGIC || system.Type == unix.RAMFS_MAGIC {
			continue
		}
		dir, err := os.MkdirTemp(parent, "bursar-disk") //nolint:usetesting // on a disk: the usual place may be in memory
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	t.Fatal("no directory on a disk: want TMPDIR on one")
	return ""
}
