//go:build linux

package netlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Lab is one network.
type Lab struct {
	// Here is the node that the test itself is.
	Here *Node

	tb    testing.TB
	names map[string]*Node
	nodes []*Node // Here is the first

	mu        sync.Mutex
	unplugged map[*Node]bool // guarded by mu
}

// Node is one machine of a network.
type Node struct {
	Name    string
	Address netip.Addr

	lab *Lab
	ns  *os.File
	mac net.HardwareAddr
	// port is the bridge's end of the node's wire; empty for Here.
	port string
}

// New makes a network with these nodes for the length of a test, and fails the test if it cannot.
func New(tb testing.TB, names ...string) *Lab {
	tb.Helper()
	lab, err := build(tb, names)
	if err != nil {
		tb.Fatal("netlab: ", err)
	}
	return lab
}

// prefix is a private network; the third number is the lab's and the last the node's.
const prefix = "10.77"

func build(tb testing.TB, names []string) (*Lab, error) {
	if !Inside() {
		return nil, errors.New("this process is not in a namespace of its own: call Main in TestMain")
	}
	l := &Lab{tb: tb, names: make(map[string]*Node), unplugged: make(map[*Node]bool)}
	bridge, number, err := l.makeBridge()
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		n, err := l.makeNode(name, bridge, number, i+2)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
		l.names[name] = n
		l.nodes = append(l.nodes, n)
	}
	tb.Cleanup(func() {
		for _, n := range l.nodes {
			_ = n.ns.Close()
		}
		_ = Do(l.Here, func() error { return deleteLink(bridge) })
	})
	return l, l.Heal() // everybody learns who the others are
}

// makeBridge makes the bridge, and with it Here.
func (l *Lab) makeBridge() (bridge string, number int, err error) {
	ns, err := currentNamespace()
	if err != nil {
		return "", 0, err
	}
	for number = range 200 {
		bridge = fmt.Sprintf("lab%d", number)
		here := &Node{Name: "here", lab: l, ns: ns, mac: macOf(number, 1), Address: addressOf(number, 1)}
		err := addBridge(bridge, here.mac)
		if errors.Is(err, unix.EEXIST) {
			continue // another test's
		}
		if err != nil {
			return "", 0, fmt.Errorf("a bridge: %w (is there a kernel module bridge?)", err)
		}
		l.Here, l.nodes = here, []*Node{here}
		return bridge, number, errors.Join(addAddress(bridge, here.Address), setUp(bridge))
	}
	return "", 0, errors.New("200 networks at once are enough")
}

func macOf(lab, node int) net.HardwareAddr {
	return net.HardwareAddr{2, 0x77, 0, byte(lab), 0, byte(node)} //nolint:gosec // both are below 256
}

func addressOf(lab, node int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("%s.%d.%d", prefix, lab, node))
}

func (l *Lab) makeNode(name, bridge string, lab, number int) (*Node, error) {
	n := &Node{Name: name, lab: l, mac: macOf(lab, number), Address: addressOf(lab, number), port: fmt.Sprintf("lab%dp%d", lab, number)}
	made := make(chan error)
	go func() {
		// It is never unlocked: the thread ends with the goroutine, since it cannot be used again.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			n.ns, err = currentNamespace()
		}
		made <- err
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("a network namespace: %w", err)
	}
	if err := addWire(n.port, bridge, n.ns, n.mac); err != nil {
		return nil, fmt.Errorf("a wire: %w (is there a kernel module veth?)", err)
	}
	if err := setUp(n.port); err != nil {
		return nil, err
	}
	return n, Do(n, func() error { return errors.Join(setUp("lo"), addAddress(wireName, n.Address), setUp(wireName)) })
}

func currentNamespace() (*os.File, error) { return os.Open("/proc/thread-self/ns/net") }

// Node returns the node with a name that New was given.
func (l *Lab) Node(name string) *Node {
	n, known := l.names[name]
	if !known {
		panic("netlab: no node " + name)
	}
	return n
}

// Prefix is a command that runs another command in the node, and becomes it.
func (n *Node) Prefix() []string {
	program, err := os.Executable()
	if err != nil {
		panic("netlab: " + err.Error())
	}
	return []string{program, enterWord, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.ns.Fd())}
}

// Command is a command that runs in the node, and is killed when this process ends.
func (n *Node) Command(ctx context.Context, argv ...string) *exec.Cmd {
	line := append(n.Prefix(), argv...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...) //nolint:gosec // whatever the test wants
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Do calls a function whose goroutine is in the node: sockets that it opens and processes that it
// starts belong there, and stay there afterwards. Goroutines that it starts do not.
func Do(n *Node, f func() error) error {
	runtime.LockOSThread()
	if err := unix.Setns(int(n.ns.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("netlab: enter %s: %w", n.Name, err)
	}
	err := f()
	if back := unix.Setns(int(n.lab.Here.ns.Fd()), unix.CLONE_NEWNET); back != nil {
		panic(fmt.Sprintf("netlab: a thread is caught in %s: %v", n.Name, back))
	}
	runtime.UnlockOSThread()
	return err
}

// String names the nodes with their addresses.
func (l *Lab) String() string {
	var list []string
	for _, n := range l.nodes {
		list = append(list, n.Name+" "+n.Address.String())
	}
	return strings.Join(list, ", ")
}
