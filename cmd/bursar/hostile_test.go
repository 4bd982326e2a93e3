package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/cli/failure"
)

// tenant is a user of the machine who is no trusted caller. Only root can start processes of
// theirs.
type tenant struct {
	t           *testing.T
	uid         uint32
	binary, own string
	socket      string
}

// does runs bursar as that user and returns what it printed, and its exit code.
func (u tenant) does(args ...string) (out string, code int) {
	u.t.Helper()
	cmd := exec.Command(u.binary, append([]string{"--agent", u.socket}, args...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.uid, Gid: u.uid}}
	printed, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		u.t.Fatal(err)
	}
	return string(printed), cmd.ProcessState.ExitCode()
}

func (u tenant) must(args ...string) string {
	u.t.Helper()
	out, code := u.does(args...)
	if code != 0 {
		u.t.Fatalf("%v ended with code %d: %s", args, code, out)
	}
	return out
}

// tenantsOf returns a folder for the servers of a machine, the socket of its agent, and two users
// who can use that and have a bursar of their own.
func tenantsOf(t *testing.T) (dir, socket string, alice, mallory tenant) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
	dir, sockets := t.TempDir(), folderOfSockets(t)
	for _, name := range []string{"bursar", "bursar-keeper"} { // where every user gets at them
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sockets, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(sockets, "bursar")
	socket = filepath.Join(sockets, "agent.sock")
	return dir, socket, tenant{t, 4712, binary, "4712", socket}, tenant{t, 4711, binary, "4711", socket}
}

// hostOfTenants starts a coordinator and an agent, and returns two users of the machine. The logs
// of both servers must not have any of the secrets.
func hostOfTenants(t *testing.T, secrets ...string) (alice, mallory tenant) {
	t.Helper()
	dir, socket, alice, mallory := tenantsOf(t)
	token := access.NewToken()
	writeConfig(t, filepath.Join(dir, "token"), token)
	writeConfig(t, filepath.Join(dir, "identities.yaml"), "identities:\n- {name: vm-one, role: agent, host: vm-one, tokenHash: '"+access.Hash(token)+"'}\n")
	writeConfig(t, filepath.Join(dir, "books.yaml"), "listen: 127.0.0.1:0\ndataDir: "+dir+"/books\nidentities: "+dir+"/identities.yaml\n")
	books := startService(t, nil, nil, "coordinator", "--config", dir+"/books.yaml", "--log-level", "debug")
	writeConfig(t, filepath.Join(dir, "agent.yaml"), "hostId: vm-one\ntick: 500ms\nsocket: "+socket+"\nstateDir: "+dir+"/state\ntokenFile: "+dir+
		"/token\ncoordinators: [\"http://"+books.address()+"\"]\nengines: {logDir: "+filepath.Dir(socket)+"/logs, keeper: "+filepath.Dir(socket)+"/bursar-keeper}\n")
	engines := startService(t, nil, nil, "agent", "--config", dir+"/agent.yaml", "--log-level", "debug")
	engines.told.until("a coordinator answers")
	t.Cleanup(func() {
		for _, s := range []*service{books, engines} {
			s.stops()
			for line := range s.logged.lines {
				s.logged.seen = append(s.logged.seen, line)
			}
			for _, secret := range append(secrets, token) {
				if strings.Contains(strings.Join(s.logged.seen, "\n"), secret) {
					t.Errorf("%s stands in %s", secret, s.logged.name)
				}
			}
		}
	})
	return alice, mallory
}

func TestNobodyReadsWhatAnothersEngineWrote(t *testing.T) {
	const secret = "password=hunter2"
	alice, mallory := hostOfTenants(t, secret)
	alice.uid, alice.own = 65534, "nobody" // an account of every machine
	id := strings.Fields(alice.must("run", "--detach", "-m", "8MiB", "-l", "user="+alice.own, "--workdir", "/", "--", "sh", "-c", "echo jdbc:db?"+secret+" >&2; exit 3"))[0]
	for !strings.Contains(alice.must("allocations", id), "exit code 3") {
		runtime.Gosched()
	}
	ways := [][]string{{"allocations", id}, {"allocations", id, "-o", "json"}, {"allocations", "--ended", "-o", "json"}, {"release", id}, {"confirm", id, "--pid", "2"}}
	for _, args := range ways {
		if out, _ := mallory.does(args...); strings.Contains(out, secret) {
			t.Errorf("%v: %s", args, out)
		}
	}
	for _, args := range ways[:3] {
		if out := alice.must(args...); !strings.Contains(out, secret) {
			t.Errorf("its user is not shown it by %v: %s", args, out)
		}
	}
}

func TestNobodyTouchesWhatIsAnothers(t *testing.T) {
	alice, mallory := hostOfTenants(t)
	id := strings.Fields(alice.must("allocate", "-m", "8MiB", "-l", "user="+alice.own, "--ttl", "10m"))[0]
	engine := strings.Fields(alice.must("allocate", "-m", "8MiB", "-l", "user="+alice.own, "--ttl", "10m"))[0]
	sleeper := exec.Command("sleep", "1000")
	sleeper.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: alice.uid, Gid: alice.uid}}
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	}()
	pid := strconv.Itoa(sleeper.Process.Pid)
	state := func(id string) string {
		var found struct{ State, Revision, Reason string }
		if err := json.Unmarshal([]byte(alice.must("allocations", id, "-o", "json")), &found); err != nil {
			t.Fatal(err)
		}
		return found.State + " " + found.Reason
	}
	alice.must("confirm", engine, "--pid", pid)
	for _, target := range []string{id, engine} {
		before := state(target)
		for _, args := range [][]string{
			{"release", target}, {"cancel", target}, {"renew", target}, {"resize", target, "-m", "1MiB"}, {"stop", target}, {"confirm", target, "--pid", pid},
		} {
			out, code := mallory.does(args...)
			if code != failure.ExitNotAllowed && code != failure.ExitNoSuchThing {
				t.Errorf("%v ended with code %d: %s", args, code, out)
			}
		}
		if after := state(target); after != before {
			t.Errorf("it was %s and is %s", before, after)
		}
	}
	if err := sleeper.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the engine has ended: %v", err)
	}
	for _, args := range [][]string{
		{"allocate", "-m", "8MiB", "-l", "user=" + alice.own},
		{"allocate", "-m", "8MiB", "-l", "user=" + mallory.own, "--priority", "5"},
		{"run", "--detach", "-m", "8MiB", "-l", "user=" + mallory.own, "--user", "nobody", "--", "true"},
		{"run", "--detach", "-m", "8MiB", "-l", "user=" + mallory.own, "--user", "0", "--", "true"},
	} {
		if out, code := mallory.does(args...); code != failure.ExitNotAllowed {
			t.Errorf("%v ended with code %d: %s", args, code, out)
		}
	}
	// A user confirms an own allocation with an own process.
	own := strings.Fields(mallory.must("allocate", "-m", "8MiB", "-l", "user="+mallory.own))[0]
	for _, others := range []string{pid, "1", strconv.Itoa(os.Getpid())} {
		if out, code := mallory.does("confirm", own, "--pid", others); code == 0 {
			t.Errorf("the process %s of another was confirmed: %s", others, out)
		}
	}
	mallory.must("release", own)
	alice.must("stop", engine)
}

// Without identities the kernel says who a caller on the coordinator's machine is: a port on
// loopback alone does not protect engines from other users.
func TestAtTheCoordinatorsPortEverybodyIsThemselves(t *testing.T) {
	dir, socket, alice, mallory := tenantsOf(t)
	writeConfig(t, filepath.Join(dir, "books.yaml"), "listen: 127.0.0.1:0\ndataDir: "+dir+"/books\n")
	books := startService(t, nil, nil, "coordinator", "--config", dir+"/books.yaml")
	address := "http://" + books.address()
	writeConfig(t, filepath.Join(dir, "agent.yaml"), "hostId: vm-one\ntick: 500ms\nsocket: "+socket+"\nstateDir: "+dir+"/state\ncoordinators: [\""+address+"\"]\n")
	engines := startService(t, nil, nil, "agent", "--config", dir+"/agent.yaml")
	engines.told.until("a coordinator answers")

	id := strings.Fields(alice.must("allocate", "--addr", address, "-m", "8MiB", "-l", "user="+alice.own, "--ttl", "10m"))[0]
	for _, args := range [][]string{
		{"release", id},
		{"cancel", id},
		{"stop", id},
		{"confirm", id, "--address", "vm-one:1"},
		{"allocate", "-m", "8MiB", "-l", "user=" + alice.own},
		{"quota", "set", "user=*", "--memory", "1MiB"},
		{"host", "drain", "vm-one"},
	} {
		if out, code := mallory.does(append(args, "--addr", address)...); code != failure.ExitNotAllowed {
			t.Errorf("%v ended with code %d: %s", args, code, out)
		}
	}
	// A caller that is no agent cannot name another in the header of agents.
	forged := mallory.forge(address, `{"name":"root","anyone":true,"admin":true,"role":"admin"}`, id)
	if !strings.Contains(forged, "invalid_argument") {
		t.Errorf("with a header that names root: %s", forged)
	}
	if out := alice.must("allocations", id, "--addr", address); !strings.Contains(out, "reserved") {
		t.Errorf("what alice has: %s", out)
	}
	alice.must("release", id, "--addr", address)
	// As root.
	as := exec.Command(alice.binary, "--addr", address, "quota", "set", "user=*", "--memory", "1GiB")
	if out, err := as.CombinedOutput(); err != nil {
		t.Errorf("root may do everything: %v: %s", err, out)
	}
}

// forge releases an allocation as that user, but names another actor.
func (u tenant) forge(address, actor, id string) string {
	u.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		// The socket gets the user of the thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := unix.Setfsuid(int(u.uid)); err != nil {
			return nil, err
		}
		defer func() { _ = unix.Setfsuid(os.Geteuid()) }()
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	request, err := http.NewRequestWithContext(u.t.Context(), http.MethodPost, address+"/bursar.v1.AllocationService/Release", strings.NewReader(`{"id":"`+id+`"}`))
	if err != nil {
		u.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Bursar-Actor", actor)
	response, err := transport.RoundTrip(request)
	if err != nil {
		u.t.Fatal(err)
	}
	defer response.Body.Close()
	out, err := io.ReadAll(response.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	return string(out)
}
