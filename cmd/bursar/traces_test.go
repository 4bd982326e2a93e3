package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bursar/bursar/test/otlp"
)

// TestAServerSendsItsLastTracesWhenItEnds ends dev before it would send traces by itself, which is
// after 5 s.
func TestAServerSendsItsLastTracesWhenItEnds(t *testing.T) {
	receiver := otlp.Start(t)
	dir, err := os.MkdirTemp("", "bursar") //nolint:usetesting // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	bursar, err := exec.LookPath("bursar")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "agent.sock")
	dev := exec.CommandContext(t.Context(), bursar, "dev", "--listen", "127.0.0.1:0", "--data-dir", dir, "--agent-socket", socket)
	dev.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+receiver.URL, "OTEL_BSP_SCHEDULE_DELAY=600000")
	out, err := dev.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for up := false; !up; up = strings.Contains(lines.Text(), "BURSAR_AGENT") {
		if !lines.Scan() {
			t.Fatalf("dev did not come up: %v", dev.Wait())
		}
	}
	allocate := exec.CommandContext(t.Context(), bursar, "allocate", "--agent", socket, "--memory", "1MiB")
	if printed, err := allocate.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, printed)
	}
	if err := dev.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := dev.Wait(); err != nil {
		t.Error(err)
	}
	spans := receiver.Spans()
	at := slices.IndexFunc(spans, func(s otlp.Span) bool {
		return s.GetName() == "bursar.v1.AllocationService/Allocate" && s.Parent() == ""
	})
	if at < 0 {
		t.Fatalf("no span of the Allocate among %d", len(spans))
	}
	var names []string
	for _, s := range spans {
		if s.Service == "bursar-dev" && s.Trace() == spans[at].Trace() {
			names = append(names, s.GetName())
		}
	}
	if !slices.Contains(names, "commit") || !slices.Contains(names, "queue") || len(names) != 5 {
		t.Errorf("spans %q: want those of the agent's part, the coordinator's, queue and commit", names)
	}
}
