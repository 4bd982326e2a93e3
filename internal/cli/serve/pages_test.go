package serve

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestPagesOfTheProgramAreGivenBack(t *testing.T) {
	before := residentFile(t)
	if err := unmapStartPages(); err != nil {
		t.Fatal(err)
	}
	if after := residentFile(t); after > before*9/10 {
		t.Errorf("%d KiB of files before, %d after: want less", before, after)
	}
}

// residentFile is how much of its files this process has mapped and present, in KiB.
func residentFile(t *testing.T) (kib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "RssFile:")
	if _, err := fmt.Sscan(after, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}
