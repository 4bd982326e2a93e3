package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/hold"
	"github.com/bursar/bursar/test/certs"
	consultest "github.com/bursar/bursar/test/consul"
	"github.com/bursar/bursar/test/proc"
)

// With the race detector a program waits for a second before it exits, and scripts run hundreds of
// them.
const goRace = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	hold.Wait() // by then it goes by the name of the command
	if err := os.Setenv("GORACE", goRace); err != nil {
		panic(err)
	}
	// The keeper is next to the program, where the agent looks for it.
	testscript.Main(m, map[string]func(){"bursar": main, "bursar-keeper": func() { os.Exit(keeper.Main()) }})
}

// patience is how long a script waits.
const patience = 60 * time.Second

// TestScripts runs testdata/*.txtar with real servers and real processes. In addition to
// testscript's own commands there are
//
//	dev [FLAG]…              start `bursar dev` with a store in $WORK/dev, on a free port that
//	                         ADDRESS has then, and wait until it is up
//	enddev SIGNAL            end it by a signal and wait for it
//	code N COMMAND…          run a command that ends with exit code N; stdout and stderr check what it printed
//	until REGEXP COMMAND…    run a command again and again until its output matches
//	setenv NAME REGEXP       set NAME to what the first group of the pattern matches in stdout
//	signal SIGNAL PIDVAR     send a signal to the process in an environment variable
//	cmpdemo REGEXP           check what dev printed until it was up
//	serve NAME COMMAND…      start a server that logs; waits for "serving" or "agent starts" and
//	                         sets ADDRESS to where it serves
//	endserve NAME SIGNAL     end it by a signal; it must end with code 0
//	yarn server NAME ROLE    a ResourceManager that is active, standby, none (knows of none
//	                         active), broken or down, at the address in NAME
//	yarn queue PATH …        a queue of the cluster they all serve: limit=8GiB/8, used=1GiB/1,
//	                         state=STOPPED, or state=GONE
//	yarn many PATH N         that many queues below one
//	yarn app ID …            an application in it: queue=root.a, used=2GiB/2, state=KILLED; or one
//	                         that has waited for a minute: state=ACCEPTED, diagnostics=TEXT
//
// FREE is an address on loopback that nobody serves. EXAMPLES is the folder of the examples. PUBLIC
// is a folder that everybody may enter, for commands of providers, which run as COMMANDUSER.
func TestScripts(t *testing.T) {
	runScripts(t, "testdata", func(*testscript.Env) {})
}

// TestScriptsOfNetworks runs testdata/net/*.txtar, which also have: certificates in $WORK/tls, of
// the authority ca.pem (server.pem for 127.0.0.1, agent.pem for the agent of host vm-one,
// admin.pem) and elsewhere.pem, which is another authority; the token of an admin in token, its
// hash in identities.yaml; and a Consul at CONSUL_HTTP_ADDR.
func TestScriptsOfNetworks(t *testing.T) {
	catalog := consultest.Start(t, consultest.Options{})
	ca, elsewhere := certs.New(t, "here"), certs.New(t, "elsewhere")
	runScripts(t, filepath.Join("testdata", "net"), func(env *testscript.Env) {
		env.Setenv("CONSUL_HTTP_ADDR", catalog.Address)
		env.Setenv("CATALOG", strings.Replace(catalog.Address, "http:", "consul:", 1))
		dir := filepath.Join(env.WorkDir, "tls")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		ca.File(t, dir, "ca.pem")
		elsewhere.File(t, dir, "elsewhere.pem")
		ca.Issue(t, certs.Request{Name: "rm-1", Hosts: []string{"127.0.0.1"}}).Files(t, dir, "server")
		ca.Issue(t, certs.Request{Name: "vm-one", Organization: []string{"bursar:agent"}}).Files(t, dir, "agent")
		ca.Issue(t, certs.Request{Name: "root", Organization: []string{"bursar:admin"}}).Files(t, dir, "admin")
		token := access.NewToken()
		for name, content := range map[string]string{
			"token": token, "unknown-token": access.NewToken(),
			"identities.yaml": "identities:\n- {name: ops, role: admin, tokenHash: '" + access.Hash(token) + "'}\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// scriptsTime is how long all scripts of a folder may take. What a script has left running at its
// end is interrupted and waited for until then.
const scriptsTime = 8 * time.Minute

// takeIgnored makes the tests those of a shell in the foreground. One in the background has SIGINT
// and SIGHUP ignored for what it starts, and programs pass that on; a signal that is taken here is
// not ignored by what is started.
func takeIgnored() {
	for _, which := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(which) {
			signal.Notify(make(chan os.Signal, 1), which)
		}
	}
}

func runScripts(t *testing.T, dir string, setup func(env *testscript.Env)) {
	t.Helper()
	takeIgnored()
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir, Deadline: time.Now().Add(scriptsTime),
		Setup: func(env *testscript.Env) error {
			setup(env)
			env.Setenv("XDG_RUNTIME_DIR", filepath.Join(env.WorkDir, "run"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("BURSAR_ADDR", "127.0.0.1:1") // nobody's
			env.Setenv("FREE", proc.Address(t))
			env.Setenv("EXAMPLES", examples)
			env.Setenv("BURSAR_AGENT", filepath.Join(env.WorkDir, "none", "agent.sock")) // nobody's, and given up soon
			env.Setenv("USER", "alice")
			env.Setenv("GORACE", goRace)
			env.Values[serversKey{}] = &scriptServers{running: make(map[string]*exec.Cmd)}
			env.Values[yarnKey{}] = newYARN()
			sockets, err := os.MkdirTemp("", "bursar") //nolint:usetesting // the path of a socket has at most 107 bytes
			env.Setenv("SOCKETS", sockets)
			env.Defer(func() { _ = os.RemoveAll(sockets) })
			return errors.Join(err, setPublic(env))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"dev": startDev, "enddev": endDev, "cmpdemo": checkDemo, "serve": startServer, "endserve": endServer,
			"yarn": changeYARN, "code": expectCode, "until": runUntil, "setenv": setEnv, "signal": sendSignal,
		},
	})
}

// setPublic makes the folder in PUBLIC, and says in COMMANDUSER who runs commands of providers.
func setPublic(env *testscript.Env) error {
	public, err := os.MkdirTemp("", "bursar")
	if err != nil {
		return err
	}
	env.Setenv("PUBLIC", public)
	env.Defer(func() { _ = os.RemoveAll(public) })
	env.Setenv("COMMANDUSER", "nobody")
	if uid := os.Geteuid(); uid != 0 {
		env.Setenv("COMMANDUSER", strconv.Itoa(uid))
	}
	return os.Chmod(public, 0o755)
}

type serversKey struct{}

// scriptServers are those that a script has started.
type scriptServers struct {
	running map[string]*exec.Cmd
	printed string // by dev until it was up
}

func serversOf(ts *testscript.TestScript) *scriptServers {
	s, _ := ts.Value(serversKey{}).(*scriptServers)
	return s
}

// start runs bursar until the script ends. It returns when a line of the output matches the last
// text to wait for.
func (s *scriptServers) start(ts *testscript.TestScript, name string, args []string, last func(line string) bool) {
	path, err := exec.LookPath("bursar")
	ts.Check(err)
	cmd := exec.Command(path, args...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = os.Environ()
	for _, variable := range []string{"XDG_RUNTIME_DIR", "XDG_STATE_HOME", "BURSAR_AGENT_STATE_DIR", "BURSAR_COORDINATOR_ADVERTISE", "CONSUL_HTTP_ADDR"} {
		if value := ts.Getenv(variable); value != "" {
			cmd.Env = append(cmd.Env, variable+"="+value)
		}
	}
	out, both, err := os.Pipe()
	ts.Check(err)
	cmd.Stdout, cmd.Stderr = both, both
	ts.Check(cmd.Start())
	ts.Check(both.Close())
	s.running[name] = cmd
	ts.Defer(func() { s.stop(name, syscall.SIGKILL) })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		ts.Logf("%s: %s", name, lines.Text())
		if last(lines.Text()) {
			go func() {
				_, _ = io.Copy(io.Discard, out)
				_ = out.Close()
			}()
			return
		}
	}
	ts.Fatalf("%s: did not come up: %v", name, cmd.Wait())
}

// stop returns the exit code, -1 if there was none.
func (s *scriptServers) stop(name string, sig syscall.Signal) int {
	cmd := s.running[name]
	if cmd == nil {
		return -1
	}
	delete(s.running, name)
	_ = cmd.Process.Signal(sig)
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

func startDev(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("dev: cannot fail")
	}
	s := serversOf(ts)
	s.printed = ""
	socket := filepath.Join(ts.Getenv("SOCKETS"), "agent.sock")
	s.start(ts, "dev", append([]string{
		"dev", "--listen", "127.0.0.1:0", "--data-dir", ts.MkAbs("dev"), "--agent-socket", socket, "--log-level", "error",
	}, args...), func(line string) bool {
		s.printed += line + "\n"
		if address, found := strings.CutPrefix(strings.TrimSpace(line), "coordinator "); found {
			ts.Setenv("BURSAR_ADDR", strings.TrimSpace(address))
			ts.Setenv("ADDRESS", strings.TrimPrefix(strings.TrimSpace(address), "http://"))
		}
		return strings.HasPrefix(line, "  bursar explain")
	})
	ts.Setenv("BURSAR_AGENT", socket)
}

func endDev(ts *testscript.TestScript, _ bool, args []string) {
	if code := serversOf(ts).stop("dev", signalNamed(ts, args[0])); code != 0 && args[0] != "KILL" {
		ts.Fatalf("dev ended with code %d", code)
	}
}

func checkDemo(ts *testscript.TestScript, _ bool, args []string) {
	if printed := serversOf(ts).printed; !regexp.MustCompile("(?m)" + args[0]).MatchString(printed) {
		ts.Fatalf("no %q in\n%s", args[0], printed)
	}
}

func startServer(ts *testscript.TestScript, _ bool, args []string) {
	serving := regexp.MustCompile(`"msg":"serving","address":"([^"]+)"`)
	serversOf(ts).start(ts, args[0], append(args[1:], "--log-format", "json"), func(line string) bool {
		if found := serving.FindStringSubmatch(line); found != nil {
			ts.Setenv("ADDRESS", found[1])
			return true
		}
		return strings.Contains(line, `"msg":"agent starts"`)
	})
}

func endServer(ts *testscript.TestScript, _ bool, args []string) {
	if code := serversOf(ts).stop(args[0], signalNamed(ts, args[1])); code != 0 {
		ts.Fatalf("%s ended with code %d", args[0], code)
	}
}

func signalNamed(ts *testscript.TestScript, name string) syscall.Signal {
	known := map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1,
		"USR2": syscall.SIGUSR2, "QUIT": syscall.SIGQUIT, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
	}
	sig, found := known[name]
	if !found {
		ts.Fatalf("unknown signal %s", name)
	}
	return sig
}

func expectCode(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("ended with code %d, want %d", got, want)
	}
}

func runUntil(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	deadline := time.After(patience)
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for {
		_ = ts.Exec(args[1], args[2:]...)
		if pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		select {
		case <-pause.C:
		case <-deadline:
			ts.Fatalf("%q did not come", args[0])
		}
	}
}

func setEnv(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if found == nil {
		ts.Fatalf("no %q in the output", args[1])
	}
	ts.Setenv(args[0], found[1])
}

func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.Getenv(args[1])))
	if err != nil || pid <= 1 {
		ts.Fatalf("signal: %s is %q", args[1], ts.Getenv(args[1]))
	}
	if err := syscall.Kill(pid, signalNamed(ts, args[0])); err != nil {
		ts.Fatalf("signal: %v", fmt.Errorf("%d: %w", pid, err))
	}
}
