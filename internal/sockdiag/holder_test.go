package sockdiag_test

import (
	"errors"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/sockdiag"
)

func TestHolderHasTheSocketOpen(t *testing.T) {
	listener, at := listen(t, "127.0.0.1:0")
	fd, _ := dial(t, os.Geteuid(), netip.AddrPort{}, at)
	own, other := ends(accept(t, listener))
	found, err := sockdiag.Find(other, own)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := sockdiag.Holder(t.Context(), "/proc", found.Inode); err != nil || int(pid) != os.Getpid() {
		t.Errorf("process %d, %v; want this one, %d", pid, err, os.Getpid())
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	if pid, err := sockdiag.Holder(t.Context(), "/proc", found.Inode); !errors.Is(err, sockdiag.ErrNone) {
		t.Errorf("of a socket that is closed: process %d, %v", pid, err)
	}
}
