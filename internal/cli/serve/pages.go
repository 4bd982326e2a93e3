package serve

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// startedFor is the time after its start at which an agent no longer needs what only the start
// needs.
const startedFor = 10 * time.Second

// unmapStartPages unmaps the pages of the program itself. Its start touches some 27 MiB of them,
// and a running agent uses half of that; the rest would count as its memory as long as it runs.
// Pages that are needed again come back from the page cache, one fault at a time. An error only
// means that the pages stay.
func unmapStartPages() error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("pages of the program: %w", err)
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("pages of the program: %w", err)
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var from, to uintptr
		var mode string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &mode); err != nil || !strings.HasSuffix(lines.Text(), " "+program) {
			continue
		}
		if !strings.HasPrefix(mode, "r") || strings.Contains(mode, "w") {
			continue // what can be written would be lost
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("pages of the program: %w", errno)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("pages of the program: %w", err)
	}
	return nil
}
