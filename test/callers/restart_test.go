package callers

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/bursar/bursar/test/proc"
)

// heard is a stream that says when a text has come.
type heard struct {
	mu    sync.Mutex
	text  bytes.Buffer // guarded by mu
	want  string
	comes chan struct{} // closed when it has come
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := strings.Contains(h.text.String(), h.want)
	n, err := h.text.Write(p)
	if !before && strings.Contains(h.text.String(), h.want) {
		close(h.comes)
	}
	return n, err
}

// A coordinator that is alone refuses connections while it restarts. A command outlasts that, and
// says meanwhile what it waits for.
func TestACommandOutlastsTheRestartOfACoordinatorThatIsAlone(t *testing.T) {
	h := newHost(t, 1)
	h.coordinator.Kill()
	said := &heard{want: "; trying again\n", comes: make(chan struct{})}
	hosts := exec.Command(program, "allocate", "-m", "1MiB", "-l", "user=alice", "--wait", "1m", "-o", "json")
	hosts.Env = proc.Environment("BURSAR_ADDR=" + h.address)
	hosts.Stderr = said
	asks := proc.Start(t, hosts)
	select {
	case <-said.comes:
	case <-asks.Ended():
		t.Fatalf("it has ended: %v", asks.Err())
	}
	h.coordinator.Start()
	if code := asks.Wait(patience); code != 0 || !strings.Contains(asks.Output.Tail(), "vm-1") {
		t.Errorf("it ended with %d: %s", code, asks.Output.Tail())
	}
}
