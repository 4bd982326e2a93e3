package losses

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// An engine here is this test's program, started again as an engine. It carries out the lines of a
// pipe at a path, one after the other, and writes into a file next to it what it has done. It ends
// when the test does: the pipe ends then.

// engineVariable in the environment makes the test's program an engine, with its path.
const engineVariable = "BURSAR_LOSSES_ENGINE"

// playEngine is the engine's side; it returns its exit code.
func playEngine(path string) int {
	said, err := os.OpenFile(path+".said", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 90
	}
	stubborn := make(chan bool, 1)
	stubborn <- false
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		for range signals {
			_, _ = fmt.Fprintln(said, "SIGTERM")
			ignores := <-stubborn
			stubborn <- ignores
			if !ignores {
				os.Exit(0)
			}
		}
	}()
	orders, err := os.Open(path + ".do") // waits for the test's side
	if err != nil {
		return 91
	}
	_, _ = fmt.Fprintln(said, "pid", os.Getpid())
	var held []byte
	for lines := bufio.NewScanner(orders); lines.Scan(); {
		words := strings.Fields(lines.Text())
		n, _ := strconv.Atoi(words[1])
		switch words[0] {
		case "hold": // MiB of anonymous memory, instead of what it had
			if held != nil {
				_ = unix.Munmap(held)
				held = nil
			}
			if n == 0 {
				break
			}
			if held, err = unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
				return 92
			}
			for i := 0; i < len(held); i += os.Getpagesize() {
				held[i] = 1
			}
		case "ignore": // SIGTERM
			<-stubborn
			stubborn <- true
		case "exit": // CODE, and last words
			fmt.Fprintln(os.Stderr, "about to end")
			fmt.Fprintln(os.Stderr, strings.Join(words[2:], " "))
			return n
		}
		_, _ = fmt.Fprintln(said, lines.Text())
	}
	return 93 // the test is over
}
