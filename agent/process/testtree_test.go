package process

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// alice is the user of engines here, bob another one; this machine knows of neither.
const (
	alice = 4712
	bob   = 4713
)

// tester is a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// node is a test process as the test knows it.
type node struct {
	ref      Ref
	name     string
	parent   *node
	uid      uint32
	descends bool // from the engine's root
	inside   bool // in the engine's cgroup
	heeds    bool
	alive    bool
}

func (n *node) String() string {
	return fmt.Sprintf("%s pid %d uid %d descends %t inside %t", n.name, n.ref.PID, n.uid, n.descends, n.inside)
}

// testTree is a launcher and all test processes below it.
type testTree struct {
	t        tester
	o        *Opener
	conn     *net.UnixConn
	name     string
	nodes    []*node // the first is the launcher
	said     chan string
	reading  sync.WaitGroup
	launcher *exec.Cmd

	mu      sync.Mutex
	signals map[string]string // guarded by mu; by the test process's name
}

// testTrees is how many there were: their sockets need names of their own.
var testTrees atomic.Int64

// orphansAreOurs makes orphans this process's children, so that they can be reaped here.
func orphansAreOurs(t tester) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
}

func newTestTree(t tester, o *Opener) *testTree {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
	p := &testTree{t: t, o: o, name: fmt.Sprintf("%d.%d", os.Getpid(), testTrees.Add(1)), said: make(chan string, 16), signals: make(map[string]string)}
	orphansAreOurs(t)
	var err error
	if p.conn, err = net.ListenUnixgram("unixgram", address(p.name)); err != nil {
		t.Fatal(err)
	}
	p.reading.Go(p.read)
	p.launcher = exec.Command("/proc/self/exe")
	p.launcher.Env, p.launcher.Stderr = environment(p.name+"-0", 0, false), os.Stderr
	p.launcher.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.launcher.Start(); err != nil {
		t.Fatal(err)
	}
	p.enlist(&node{name: p.name + "-0"})
	return p
}

// close ends all test processes.
func (p *testTree) close() {
	for _, n := range p.nodes {
		if h, err := p.o.Open(n.ref); err == nil {
			_ = h.Signal(syscall.SIGKILL)
			h.Close()
		}
	}
	_ = p.launcher.Wait()
	for _, n := range p.nodes[1:] {
		_, _ = syscall.Wait4(int(n.ref.PID), nil, 0, nil)
	}
	_ = p.conn.Close()
	p.reading.Wait()
}

func (p *testTree) read() {
	buffer := make([]byte, 256)
	for {
		n, err := p.conn.Read(buffer)
		if err != nil {
			return
		}
		if words := strings.SplitN(string(buffer[:n]), " ", 3); words[1] == "signal" {
			p.mu.Lock()
			p.signals[words[0]] = words[2]
			p.mu.Unlock()
		} else {
			p.said <- string(buffer[:n])
		}
	}
}

// signalled returns the signal that a test process says it got, or "".
func (p *testTree) signalled(n *node) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.signals[n.name]
}

// next waits for what any test process says.
func (p *testTree) next(what string) string {
	p.t.Helper()
	patience := time.NewTimer(20 * time.Second)
	defer patience.Stop()
	select {
	case said := <-p.said:
		return said
	case <-patience.C:
		p.t.Fatalf("nobody says %s", what)
		return ""
	}
}

// hears waits for what a test process says.
func (p *testTree) hears(name, word string) string {
	p.t.Helper()
	want := name + " " + word
	said := p.next(want)
	rest, ok := strings.CutPrefix(said, want)
	if !ok {
		p.t.Fatalf("heard %q, want %q of %s", said, word, name)
	}
	return strings.TrimSpace(rest)
}

// tells has a test process do something, and returns when it is done; exec ends with the new
// program.
func (p *testTree) tells(n *node, words string) {
	p.t.Helper()
	if _, err := p.conn.WriteToUnix([]byte(words), address(n.name)); err != nil {
		p.t.Fatalf("%s: %v", words, err)
	}
	switch words {
	case "exit":
		n.alive = false
		p.awaitEnd(n)
	case "exec":
		p.hears(n.name, "is")
	default:
		p.hears(n.name, "done")
	}
}

func (p *testTree) awaitEnd(n *node) {
	p.t.Helper()
	h, err := p.o.Open(n.ref)
	if err != nil {
		return
	}
	defer h.Close()
	for began := time.Now(); ; {
		if h.check() != nil {
			return
		}
		if time.Since(began) > 20*time.Second {
			p.t.Fatalf("%s does not end", n.name)
		}
	}
}

// fork has a test process start another one as its own user.
func (p *testTree) fork(parent *node, uid uint32, heeds, setsid bool) *node {
	p.t.Helper()
	n := &node{
		name: fmt.Sprintf("%s-%d", p.name, len(p.nodes)), parent: parent, uid: uid, descends: parent.descends, inside: parent.inside, heeds: heeds,
	}
	if _, err := p.conn.WriteToUnix(fmt.Appendf(nil, "fork %d %s %t %t", uid, n.name, heeds, setsid), address(parent.name)); err != nil {
		p.t.Fatal(err)
	}
	// Which of them speaks first is open.
	for range 2 {
		said := p.next(parent.name + " done, or " + n.name + " is")
		if rest, ok := strings.CutPrefix(said, n.name+" is "); ok {
			pid, _ := strconv.Atoi(rest)
			n.ref.PID = int32(pid)
		} else if said != parent.name+" done" {
			p.t.Fatalf("heard %q", said)
		}
	}
	p.register(n)
	return n
}

// enlist waits for a test process that has been started.
func (p *testTree) enlist(n *node) {
	p.t.Helper()
	pid, _ := strconv.Atoi(p.hears(n.name, "is"))
	n.ref.PID = int32(pid)
	p.register(n)
}

func (p *testTree) register(n *node) {
	p.t.Helper()
	identity, err := p.o.identifier.Identify(n.ref.PID)
	if err != nil {
		p.t.Fatal(err)
	}
	n.ref.StartTime, n.alive = identity.StartTime, true
	p.nodes = append(p.nodes, n)
}

// root makes a test process the root of an engine.
func (p *testTree) root(n *node) Engine {
	p.t.Helper()
	n.descends = true
	return Engine{Root: n.ref, User: new(n.uid), LastAlive: now()}
}

// testCgroup is a cgroup for an engine, in the hierarchy that accounts for memory.
type testCgroup struct {
	name, folder, outside string
}

func newCgroup(t tester, name string) testCgroup {
	t.Helper()
	self, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := self.MountInfo()
	if err != nil {
		t.Fatal(err)
	}
	point := ""
	for _, mount := range mounts {
		_, memory := mount.SuperOptions["memory"]
		if mount.FSType == "cgroup2" && point == "" || mount.FSType == "cgroup" && memory {
			point = mount.MountPoint
		}
	}
	c := testCgroup{name: "/" + name, folder: filepath.Join(point, name), outside: point}
	if err := os.Mkdir(c.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return c
}

// remove removes it once no process is inside.
func (c testCgroup) remove() {
	for began := time.Now(); syscall.Rmdir(c.folder) != nil && time.Since(began) < 10*time.Second; {
		runtime.Gosched() // what was killed is not gone at once
	}
}

// move moves a test process there, or to the top.
func (p *testTree) move(c testCgroup, n *node, inside bool) {
	p.t.Helper()
	folder := c.outside
	if inside {
		folder = c.folder
	}
	err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(int(n.ref.PID))), 0)
	if err != nil {
		p.t.Fatal(err)
	}
	n.inside = inside
}
