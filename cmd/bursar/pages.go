package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// startedFor is how long after its start an agent no longer needs what only the start does.
const startedFor = 10 * time.Second

// unmapStartPages unmaps what was read of the program itself. Some 27 MiB of it are touched by the start of all that it consists of, of which
// an agent goes on to use half; the rest would count as its memory for as long as it runs. What is needed again comes back from the page
// cache, a fault at a time. An error only means that it stays as it is.
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
