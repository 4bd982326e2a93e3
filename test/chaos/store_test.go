package chaos

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

func (c *cluster) storeFile() string { return filepath.Join(c.dir, "coordinator", "bursar.db") }

// stopCoordinator ends it as an operator does.
func (c *cluster) stopCoordinator() {
	c.t.Helper()
	c.coordinator.Signal(syscall.SIGTERM)
	if code := c.coordinator.Wait(upTime); code != 0 {
		c.t.Fatalf("the coordinator ends with %d on SIGTERM", code)
	}
}

// TestAStoreThatCannotBeUsedIsRefusedAndLeftAlone: the coordinator says what the file is and what
// would be right, and does not touch the file. It ends with the code for a bad configuration, so
// that it is not started again and again.
func TestAStoreThatCannotBeUsedIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	c := startCluster(t, settings{})
	e, a := c.startConfirmed(engineRequest())
	c.stopCoordinator()
	good := must[[]byte](t)(os.ReadFile(c.storeFile()))
	// The places of these in the first page of every SQLite file.
	const userVersion, applicationID, pageSize = 60, 68, 4096
	patched := func(at int, patch []byte) []byte {
		return append(append(bytes.Clone(good[:at]), patch...), good[at+len(patch):]...)
	}
	number := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	for _, test := range []struct {
		name    string
		content []byte
		says    string
	}{
		{"a text", []byte("select * from allocations;\n"), "not a bursar store"},
		{"another application's SQLite file", patched(applicationID, number(0x11223344)), "not a bursar store"},
		{"of a newer version", patched(userVersion, number(4711)), "schema is version 4711"},
		{"damaged in the middle", patched(pageSize, bytes.Repeat([]byte("damage! "), 3*pageSize/8)), "damaged"},
		{"cut off", good[:len(good)/2], "damaged"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := os.WriteFile(c.storeFile(), test.content, 0o600); err != nil {
				t.Fatal(err)
			}
			command(t, nil, "coordinator", "--config", filepath.Join(c.dir, "coordinator.yaml")).
				Expect(t, 78, c.storeFile(), test.says, "want ")
			if after := must[[]byte](t)(os.ReadFile(c.storeFile())); !bytes.Equal(after, test.content) {
				t.Error("the file was changed")
			}
		})
	}
	t.Run("a directory", func(t *testing.T) {
		if err := os.Remove(c.storeFile()); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(c.storeFile(), 0o700); err != nil {
			t.Fatal(err)
		}
		command(t, nil, "coordinator", "--config", filepath.Join(c.dir, "coordinator.yaml")).Expect(t, 78, "it is a directory", "want ")
		if err := os.Remove(c.storeFile()); err != nil {
			t.Fatal(err)
		}
	})

	// A backup in its place, as it says: the engine, which ran on, is as it was.
	if err := os.WriteFile(c.storeFile(), good, 0o600); err != nil {
		t.Fatal(err)
	}
	c.startCoordinator()
	if err := c.is(a.GetId(), active); err != nil || !proc.Alive(e.pid()) {
		t.Errorf("the engine runs: %v, %v", proc.Alive(e.pid()), err)
	}
	c.audited()

	t.Run("in use", func(t *testing.T) {
		// A coordinator would wait for the other one's end.
		command(t, nil, "dev", "--data-dir", c.dir, "--listen", proc.Address(t), "--agent-socket", filepath.Join(c.dir, "dev.sock")).
			Expect(t, 1, "in use", strconv.Itoa(c.coordinator.PID()), "want ")
		if err := c.is(a.GetId(), active); err != nil {
			t.Error(err)
		}
	})
	e.kill()
	c.expectEmpty(upTime)
}

// TestWithoutAStoreAgentsBringTheLedgerBack: the file is gone with all that was in it. Status names
// the lost store as that of refused callers. Once the operator has put it into the configuration,
// the engines that run are entered again, and once he has accepted them, under their users.
func TestWithoutAStoreAgentsBringTheLedgerBack(t *testing.T) {
	t.Parallel()
	c := startCluster(t, settings{})
	e, a := c.startConfirmed(engineRequest())
	status := func() *bursarv1.StatusResponse {
		return must[*bursarv1.StatusResponse](t)(c.remote.Cluster().Status(t.Context(), &bursarv1.StatusRequest{}))
	}
	lost := status().GetStoreId()
	c.coordinator.Kill()
	if err := os.RemoveAll(filepath.Dir(c.storeFile())); err != nil {
		t.Fatal(err)
	}
	c.startCoordinator()
	eventually(t, upTime, "status names the lost store", func() error {
		if list := status().GetWarnings(); !strings.Contains(strings.Join(list, "\n"), lost) {
			return fmt.Errorf("warnings %q: want store %s", list, lost)
		}
		return nil
	})
	c.coordinator.Kill()
	c.configure("replacesStores: [" + lost + "]\n")
	c.startCoordinator()
	eventually(t, upTime, "the engine is adopted", func() error {
		list := live(t, c.remote)
		if len(list) != 1 || list[0].GetId() != a.GetId() || list[0].GetState() != active {
			return fmt.Errorf("live: %v", list)
		}
		return nil
	})
	if used := amountsOf(c.host().GetAccount().GetUsed()); !used.equal(amountsOf(a.GetEntitled())) {
		t.Errorf("used %v, want %v", used, amountsOf(a.GetEntitled()))
	}
	// The keys of its seal are lost as well.
	accepted := must[*bursarv1.AcceptResponse](t)(c.remote.Hosts().Accept(t.Context(), &bursarv1.AcceptRequest{HostId: hostID}))
	if list := accepted.GetAccepted(); len(list) != 1 || !maps.Equal(list[0].GetLabels(), a.GetLabels()) || list[0].GetRequestId() != a.GetRequestId() {
		t.Errorf("accepted %v, want %v", list, a)
	}
	if !proc.Alive(e.pid()) {
		t.Error("the engine was killed")
	}
	e.kill()
	c.expectEmpty(upTime)
}

// TestAFullDiskRefusesAndLosesNothing: while nothing can be written nothing is acknowledged,
// engines go on, and the coordinator keeps running. When there is room again it continues by
// itself, and what was acknowledged before is there.
func TestAFullDiskRefusesAndLosesNothing(t *testing.T) {
	t.Parallel()
	t.Run("no file may grow", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t, settings{})
		// The soft limit of a process can be changed from outside, and back.
		limit := func(bytes uint64) {
			t.Helper()
			var before unix.Rlimit
			if err := unix.Prlimit(c.coordinator.PID(), unix.RLIMIT_FSIZE, nil, &before); err != nil {
				t.Fatal(err)
			}
			if err := unix.Prlimit(c.coordinator.PID(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: before.Max}, nil); err != nil {
				t.Fatal(err)
			}
		}
		c.throughFullDisk(t, func() { limit(0) }, func() { limit(unix.RLIM_INFINITY) })
	})
	t.Run("no space left", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, settings{})
		data := filepath.Join(c.dir, "coordinator")
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", data, "tmpfs", 0, "size=4m,mode=0700"); err != nil {
			t.Logf("this user cannot mount: the limit on files has to do: %v", err)
			return
		}
		t.Cleanup(func() { _ = unix.Unmount(data, unix.MNT_DETACH) })
		c.startCoordinator()
		c.startAgent()
		ballast := filepath.Join(data, "ballast")
		c.throughFullDisk(t,
			// As much of it as there is room for.
			func() { _ = os.WriteFile(ballast, make([]byte, 4<<20), 0o600) },
			func() { _ = os.Remove(ballast) })
	})
}

func (c *cluster) throughFullDisk(t *testing.T, fill, free func()) {
	t.Helper()
	e, a := c.startConfirmed(engineRequest())
	kept := c.allocate(engineRequest())
	before := accountOf(c)
	fill()
	// What is there may still be enough for a few: everything that is acknowledged must hold.
	impatient := c.client(c.address, client.WithoutRetries()).Allocations()
	var acknowledged []*bursarv1.Allocation
	var refusedRequest *bursarv1.AllocateRequest
	for refusedRequest == nil {
		r := request("bob", 1<<20, 0)
		r.ReservationTtl = seconds(600)
		res, err := impatient.Allocate(t.Context(), r)
		switch {
		case err == nil:
			acknowledged = append(acknowledged, res.GetAllocation())
			before.reserved = before.reserved.plus(amountsOf(res.GetAllocation().GetEntitled()))
		case client.Unavailable(err):
			refusedRequest = r
			t.Logf("after %d more grants: %v", len(acknowledged), err)
		default:
			t.Fatalf("on a full disk: %v, want UNAVAILABLE", err)
		}
		if len(acknowledged) > 20_000 {
			t.Fatal("the disk does not fill")
		}
	}
	always(t, tick, "while the disk is full", func() error {
		if !c.coordinator.Running() || !proc.Alive(e.pid()) {
			return fmt.Errorf("the coordinator runs: %v, the engine runs: %v", c.coordinator.Running(), proc.Alive(e.pid()))
		}
		if res, err := impatient.Allocate(t.Context(), request("bob", 1<<20, 0)); err == nil {
			return fmt.Errorf("granted: %v", res.GetAllocation())
		}
		return nil
	})
	free()
	var late *bursarv1.Allocation
	eventually(t, upTime, "the coordinator goes on", func() error {
		res, err := impatient.Allocate(t.Context(), refusedRequest)
		late = res.GetAllocation()
		return err
	})
	c.release(late.GetId())
	for id, want := range map[string]bursarv1.AllocationState{a.GetId(): active, kept.GetId(): reserved} {
		if err := c.is(id, want); err != nil {
			t.Error(err)
		}
	}
	eventually(t, upTime, "the account holds what was acknowledged", func() error { return before.differs(c) })

	// The same after a crash: it was not only in memory.
	c.coordinator.Kill()
	c.startCoordinator()
	eventually(t, upTime, "the account holds what was acknowledged, after a crash", func() error { return before.differs(c) })
	for _, each := range append(acknowledged, kept) {
		if err := c.is(each.GetId(), reserved); err != nil {
			t.Error(err)
		}
		c.release(each.GetId())
	}
	e.kill()
	c.expectEmpty(upTime)
}
