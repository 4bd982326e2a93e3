//go:build linux

package ha

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// aheadBy is how far the clock of an ahead coordinator is ahead.
const aheadBy = "time.Hour"

// buildAhead builds the bursar under test with a coordinator whose time of day is an hour ahead,
// and returns it. Go's programs read the clock without a C library that could be replaced, and no
// namespace of Linux has a time of day of its own. So it changes one line of the source: the
// coordinator's only reading of the time of day. The release has nothing of this.
func buildAhead(t *testing.T) (program string) {
	t.Helper()
	const reads = "func (systemClock) Now() time.Time { return time.Now() }"
	file, err := filepath.Abs("../../coordinator/systemclock.go")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(source), reads) != 1 {
		t.Fatalf("%s has no %q to replace", file, reads)
	}
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "systemclock.go"), filepath.Join(dir, "overlay.json")
	text := strings.Replace(string(source), reads, fmt.Sprintf("func (systemClock) Now() time.Time { return time.Now().Add(%s) }", aheadBy), 1)
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, replaced, 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(binaries, "bursar-ahead")
	if err := build("../..", program, "-overlay", overlay); err != nil {
		t.Fatal(err)
	}
	return program
}
