package outputs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bursar/bursar/client"
)

// asReader makes the test binary a reader at an agent's socket; its value is the socket and the
// allocation.
const asReader = "BURSAR_TEST_READER"

// beReader reads output from the socket of an agent, and prints it.
func beReader(what string) int {
	socket, id, _ := strings.Cut(what, " ")
	c, err := client.New("unix:" + socket)
	if err == nil {
		defer c.Close()
		var g *got
		if g, err = read(noTest(), c.Engines(), follow(id), nil); err == nil {
			_, _ = os.Stdout.Write(g.data)
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// The agent sends output to callers on its host without a coordinator: to root, and to the account
// that the engine runs as. Others need the rights that they need at a coordinator.
func TestTheAgentSendsItsHostsOutput(t *testing.T) {
	p := setUp(t, 1)
	id := p.engine("local", "echo one; echo two")
	if g, err := read(t.Context(), p.local(), follow(id), nil); err != nil || string(g.data) != "one\ntwo\n" {
		t.Errorf("root: %+v, %v", g, err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(p.dir, "reader")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	as := func(uid uint32) (string, string, error) {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = append(os.Environ(), asReader+"="+p.socket()+" "+id)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: 65534}}
		var out, complaints bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &complaints
		err := cmd.Run()
		return out.String(), complaints.String(), err
	}
	for _, m := range p.members { // nobody has to lead
		m.stop(t)
	}
	if out, complaints, err := as(65534); err != nil || out != "one\ntwo\n" {
		t.Errorf("the engine's account: %q, %v: %s", out, err, complaints)
	}
	if out, complaints, err := as(1); err == nil || out != "" {
		t.Errorf("another account, without a coordinator: %q, %v: %s", out, err, complaints)
	}
}

// Another user of the host may not read the output, and hears so.
func TestTheAgentKeepsOutputFromOthers(t *testing.T) {
	p := setUp(t, 1)
	id := p.engine("local", "echo one; echo two")
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), asReader+"="+p.socket()+" "+id)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1, Gid: 1}}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "may not see the output") {
		t.Errorf("%v: %s", err, out)
	}
}
