package soak

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/test/proc"
)

// The log next to the embedded store's file is carried over into it every 4,096 pages (16 MiB),
// and begins again before it has five times as many (coordinator/store/sqlite/checkpoint.go). A
// run of ten minutes writes more than those 80 MiB; a shorter one does not, and could not fail. So
// the coordinator of a shorter run has proportionally less: the test changes one line of its
// source. It is no setting: the release has nothing of this.
const (
	storeSource = "../../coordinator/store/sqlite/checkpoint.go"
	usualCarry  = 4096 // pages
	usualTime   = 10 * time.Minute
	page        = 4096 // bytes
)

// carryOf is after how many pages the log of a run is carried over.
func carryOf(run time.Duration) int64 {
	return min(usualCarry, max(64, usualCarry*int64(run/time.Second)/int64(usualTime/time.Second)))
}

// longestLog is what the log may have in bytes: five times what it is carried over after, the head
// of each page, and what is committed while a busy machine carries it over.
func longestLog(carry int64) int64 { return 5*carry*(page+24) + 2*mib }

// buildShortLog builds bursar with a store that carries its log over after that many pages.
func buildShortLog(t *testing.T, into string, carry int64) {
	t.Helper()
	file, err := filepath.Abs(storeSource)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	was := fmt.Sprintf("defaultCarry = %d\n", usualCarry)
	if strings.Count(string(source), was) != 1 {
		t.Fatalf("%s has no %q to replace", file, was)
	}
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "checkpoint.go"), filepath.Join(dir, "overlay.json")
	text := strings.Replace(string(source), was, fmt.Sprintf("defaultCarry = %d\n", carry), 1)
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{changed: text, overlay: string(replaced)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := (proc.Build{Into: into, Flags: []string{"-overlay", overlay}}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}
