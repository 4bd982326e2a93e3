package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAProcessThatStartsAProgramIsNotCountedTwice: between vfork and exec a process and its child
// share one address space. The kernel does not divide such pages. Go, Java and Python start all
// programs in this way, and an exec can take as long as the program's file system.
func TestAProcessThatStartsAProgramIsNotCountedTwice(t *testing.T) {
	meter, now := realMeter(t, Options{})
	e := startEngine(t, obedient, nil)
	e.do("touch 64")
	alone := measured(t, meter, now, e.engine(meter))

	file, err := os.OpenFile(filepath.Join(t.TempDir(), "program"), os.O_CREATE|os.O_RDWR, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // ends the lease, and the waiting exec
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	e.do("vfork %s", file.Name())
	var two Usage
	for deadline := time.Now().Add(10 * time.Second); two.Processes < 2; {
		if time.Now().After(deadline) {
			t.Fatalf("no child in 10 s: %+v", two)
		}
		two = measured(t, meter, now, e.engine(meter))
	}
	if two.UnreclaimableBytes > alone.UnreclaimableBytes+slack || two.MemoryBytes > alone.MemoryBytes+slack {
		t.Errorf("it holds %d MiB, and %d MiB while it starts a program, of that %d MiB unreclaimable",
			alone.MemoryBytes>>20, two.MemoryBytes>>20, two.UnreclaimableBytes>>20)
	}
}
