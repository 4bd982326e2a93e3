//go:build linux

package netlab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/test/proc"
)

// abandonVariable, in the environment of a child, has it leave a process in a lab and wait to be
// killed.
const abandonVariable = "BURSAR_NETLAB_ABANDON"

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// patience is how long something immediate may take on a busy machine; brief is how long silence
// must last.
const (
	patience = 20 * time.Second
	brief    = 300 * time.Millisecond
)

// echo serves in a node, and returns its address.
func echo(t *testing.T, n *Node) string {
	t.Helper()
	var listener net.Listener
	err := Do(n, func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(n.Address.String(), "0"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					fmt.Fprintln(c, lines.Text())
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func dial(n *Node, address string, patience time.Duration) (c net.Conn, err error) {
	err = Do(n, func() (err error) {
		c, err = net.DialTimeout("tcp", address, patience)
		return err
	})
	return c, err
}

// caller is a connection that is asked for answers.
type caller struct {
	net.Conn
	answers *bufio.Reader
}

func call(t *testing.T, n *Node, address string) *caller {
	t.Helper()
	c, err := dial(n, address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &caller{c, bufio.NewReader(c)}
}

func (c *caller) ask(word string, within time.Duration) error {
	if _, err := fmt.Fprintln(c, word); err != nil {
		return err
	}
	return c.hear(word, within)
}

func (c *caller) hear(word string, within time.Duration) error {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	line, err := c.answers.ReadString('\n')
	if err == nil && line != word+"\n" {
		err = fmt.Errorf("heard %q, want %q", line, word)
	}
	return err
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestCutIsSilentAndHeals(t *testing.T) {
	lab := New(t, "a", "b", "c")
	a, b, c := lab.Node("a"), lab.Node("b"), lab.Node("c")
	address := echo(t, a)
	for _, test := range []struct {
		name    string
		cut     func() error
		cReachs bool
	}{
		{"a pair", func() error { return lab.Cut(a, b) }, true},
		{"from all but one", func() error { return lab.CutAll(a, c) }, true},
		{"from all", func() error { return lab.CutAll(a) }, false},
		{"unplugged", func() error { return lab.Unplug(a) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			fromB, fromC := call(t, b, address), call(t, c, address)
			if err := errors.Join(fromB.ask("one", patience), fromC.ask("one", patience)); err != nil {
				t.Fatal(err)
			}
			if err := test.cut(); err != nil {
				t.Fatal(err)
			}
			if err := fromB.ask("two", brief); !isTimeout(err) {
				t.Errorf("an open connection: %v, want silence", err)
			}
			if lost, err := dial(b, address, brief); !isTimeout(err) {
				t.Errorf("a new connection: %v, %v, want silence", lost, err)
			}
			if test.cReachs {
				if err := fromC.ask("two", patience); err != nil {
					t.Errorf("the third node: %v", err)
				}
			} else if err := fromC.ask("two", brief); !isTimeout(err) {
				t.Errorf("the third node: %v, want silence", err)
			}
			if err := lab.Heal(); err != nil {
				t.Fatal(err)
			}
			// What was said into the silence arrives.
			if err := fromB.hear("two", patience); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			if err := call(t, b, address).ask("three", patience); err != nil {
				t.Errorf("a new connection afterwards: %v", err)
			}
		})
	}
}

func TestCommandRunsInItsNode(t *testing.T) {
	lab := New(t, "a", "b")
	for _, n := range []*Node{lab.Node("a"), lab.Node("b")} {
		out, err := n.Command(t.Context(), "cat", "/proc/self/net/fib_trie").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, other := range lab.nodes {
			if got := strings.Contains(string(out), "|-- "+other.Address.String()+"\n"); got != (other == n) {
				t.Errorf("in %s the address of %s: %v\n%s", n.Name, other.Name, got, out)
			}
		}
	}
}

func TestHereReachesEveryNode(t *testing.T) {
	first, second := New(t, "a"), New(t, "a")
	for _, lab := range []*Lab{first, second} {
		if err := call(t, lab.Here, echo(t, lab.Node("a"))).ask("one", patience); err != nil {
			t.Errorf("%s: %v", lab, err)
		}
	}
}

// A test that is killed leaves no process in a namespace, and the namespace goes with its last
// process.
func TestNothingIsLeftBehind(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), program, "-test.run=^TestAbandon$")
	child.Env = append(os.Environ(), abandonVariable+"=1")
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	left := proc.HoldText(t, line)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	deadline, again := time.After(patience), time.NewTicker(10*time.Millisecond)
	defer again.Stop()
	for left.There() {
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("process %d is still there", left.PID)
		}
	}
}

// TestAbandon is the child of TestNothingIsLeftBehind, and by itself shows that a lab can be made
// without help.
func TestAbandon(t *testing.T) {
	lab := New(t, "a")
	left := lab.Node("a").Command(context.Background(), "sleep", "1000")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	defer left.Wait() //nolint:errcheck // it is killed
	defer func() { _ = left.Process.Kill() }()
	if os.Getenv(abandonVariable) != "" {
		fmt.Println(left.Process.Pid)
		select {}
	}
}
