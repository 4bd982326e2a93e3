//go:build linux

package linkis

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// Accounts that every machine has: the one whose the engines are, and that of the second ECM.
const (
	engineAccount = "nobody"
	ecmAccount    = "daemon"
)

// launchTolerance is how many times what an engine is entitled to the kernel lets it have: a JVM
// takes more than the heap that Linkis books.
const launchTolerance = 4

// launching is a Linkis whose engines are started by agents, on one host at a time.
type launching struct {
	*running

	h *host
}

// TestLaunch has agents start the engines of another user than the ECM's: first for an ECM of root,
// then for one that has an account of its own.
func TestLaunch(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("an agent starts engines of other users only as root: run this as root")
	}
	l := &launching{running: newRunning(t, options{
		hosts: 2, memory: 4 << 30, millis: 1000, user: engineAccount, policy: fmt.Sprintf("{onOverUse: limit, tolerance: %d%%}", (launchTolerance-1)*100),
	})}
	if err := os.Chmod(filepath.Join(l.dir, "run", "user"), 0o777); err != nil { // engines write their results there
		t.Fatal(err)
	}
	l.startLaunchingECM(l.hosts[0], "root")
	l.run(t, l.steps("root")...)
	if _, err := l.bursar.Hosts().Cordon(t.Context(), &bursarv1.CordonRequest{HostId: l.h.name}); err != nil {
		t.Fatal(err)
	}
	l.h.ecm.Kill()
	l.run(t, step{"an ECM that the agent does not trust", l.notTrusted})
	l.restartAgent("trustedUsers: [" + ecmAccount + "]\n")
	l.startLaunchingECM(l.hosts[1], ecmAccount)
	l.restartAgent("")
	l.run(t, step{"an ECM that the agent no longer trusts", l.noLongerTrusted})
	l.restartAgent("trustedUsers: [" + ecmAccount + "]\n")
	l.run(t, l.steps(ecmAccount)...)
}

func (l *launching) steps(ecm string) []step {
	of := func(what string) string { return "ECM of " + ecm + ": " + what }
	return []step{
		{of("a script runs in an engine that the agent has started"), l.scriptRuns},
		{of("the engine is its user's, limited, and has logs"), l.engineIsRight},
		{of("Bursar shows the engine, its output, and that it is ready"), l.bursarShows},
		{of("a script that takes too much memory"), l.memoryIsLimited},
		{of("an engine that is killed is released"), l.engineIsKilled},
		{of("an engine's script is killed, and the engine goes on"), l.shellIsKilled},
		{of("Linkis stops an engine"), l.linkisStops},
		{of("an engine that does not start says why"), l.startFails},
		{of("the ECM is started again"), l.ecmIsRestarted},
	}
}

func (l *launching) startLaunchingECM(h *host, account string) {
	l.t.Helper()
	l.launchingECM(h, account)
	l.startECM(h)
	h.ecm.listed()
	want := "0"
	if h.account != nil {
		want = h.account.Uid
	}
	if uid := uidOf(l.t, fmt.Sprintf("/proc/%d", h.ecm.PID())); uid != want {
		l.t.Fatalf("the ECM runs as uid %s, want %s, %s", uid, want, account)
	}
}

// launchingECM makes the ECM of a host, and does not start it.
func (l *launching) launchingECM(h *host, account string) {
	l.t.Helper()
	found, err := user.Lookup(account)
	if err != nil {
		l.t.Fatal(err)
	}
	l.h = h
	if found.Uid != "0" {
		h.account = found
	}
	// Linkis gives the folders of engines the mode of the one above.
	engines := filepath.Join(h.name, "engines")
	l.make(engines)
	if err := os.Chmod(filepath.Join(l.dir, engines), 0o777); err != nil { // as Linkis's own installation does
		l.t.Fatal(err)
	}
	l.adaptECM(h, map[string]string{"linkis.bursar.launch": "true"})
}

// restartAgent starts the agent of the host anew, with more of its configuration.
func (l *launching) restartAgent(more string) {
	l.t.Helper()
	l.h.agent.Kill()
	l.startAgent(l.h, more)
	l.awaitHosts(len(l.hosts))
}

// notTrusted: the ECM ends and says what to do, and Linkis sends it no engines.
func (l *launching) notTrusted(t *testing.T) {
	l.launchingECM(l.hosts[1], ecmAccount)
	l.h.ecm.Start()
	if code := l.h.ecm.Wait(patience); code != 1 {
		t.Errorf("the ECM has ended with %d: want 1", code)
	}
	if text := l.h.ecm.Output.String(); !strings.Contains(text, "This ECM is not registered") || !strings.Contains(text, "trustedUsers") {
		t.Errorf("want an ECM that says what to do:\n%s", l.h.ecm.Output.Tail())
	}
	if rows := l.db.rows("SELECT instance FROM linkis_cg_manager_service_instance WHERE instance = ?", l.h.instance()); len(rows) > 0 {
		t.Errorf("Linkis knows the ECM: %v", rows)
	}
}

// noLongerTrusted: the agent starts engines of others for its trusted users alone. Linkis is told
// so, and nothing stays allocated.
func (l *launching) noLongerTrusted(t *testing.T) {
	var err error
	eventually(t, "an engine is refused", func() error {
		if _, err = l.create("256m"); err == nil {
			t.Fatal("an engine was started by an ECM that the agent does not trust")
		}
		// Until Linkis counts the new ECM as healthy.
		if strings.Contains(err.Error(), "healthy") || strings.Contains(err.Error(), "cordoned") {
			return err
		}
		return nil
	})
	t.Logf("Linkis says: %v", err)
	if !strings.Contains(err.Error(), "trustedUsers") {
		t.Errorf("want an error that says what to do: %v", err)
	}
	l.awaitNothing("after the refusal")
}

// uidOf is the owner of a file, or the user of a folder of /proc.
func uidOf(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	owner, _ := info.Sys().(*syscall.Stat_t)
	return strconv.FormatUint(uint64(owner.Uid), 10)
}

// only is the one engine that there is, with its JVM and its folder.
func (l *launching) only() (a *bursarv1.Allocation, jvm int, folder string) {
	l.t.Helper()
	list, err := l.live()
	if err != nil || len(list) != 1 {
		l.t.Fatalf("want one allocation: %v %v", list, err)
	}
	jvms := l.engineProcesses()
	if len(jvms) != 1 {
		l.t.Fatalf("want one engine: %v", jvms)
	}
	if folder, err = os.Readlink(fmt.Sprintf("/proc/%d/cwd", jvms[0])); err != nil {
		l.t.Fatal(err)
	}
	return list[0], jvms[0], folder
}

// engineIsRight: the engine runs as its user, below the agent's keeper and not below the ECM, in a
// cgroup of its own with its limit, and its output is where Linkis looks for it.
func (l *launching) engineIsRight(t *testing.T) {
	a, jvm, folder := l.only()
	account, err := user.Lookup(engineAccount)
	if err != nil {
		t.Fatal(err)
	}
	if uid := uidOf(t, fmt.Sprintf("/proc/%d", jvm)); uid != account.Uid {
		t.Errorf("the engine runs as uid %s, want %s", uid, engineAccount)
	}
	launched, ecm := false, false
	for pid := jvm; pid > 1; pid = parentOf(pid) {
		launched = launched || pid == int(a.GetProcess().GetPid())
		ecm = ecm || pid == l.h.ecm.PID()
	}
	if !launched || ecm {
		t.Errorf("the engine's JVM %d: below what the agent has started (%d): %v, below the ECM: %v", jvm, a.GetProcess().GetPid(), launched, ecm)
	}
	limit, err := memoryFile(jvm, a.GetId(), "memory.limit_in_bytes", "memory.max")
	if want := fmt.Sprint(a.GetEntitled().GetMemoryBytes() * launchTolerance); err != nil || limit != want {
		t.Errorf("the engine's cgroup has a limit of %s bytes, want %s: %v", limit, want, err)
	}
	for _, name := range []string{"logs/stdout", "logs/stderr"} {
		if uid := uidOf(t, filepath.Join(folder, name)); uid != account.Uid {
			t.Errorf("%s is uid %s's, want %s", name, uid, engineAccount)
		}
	}
	row := l.db.rows("SELECT instance FROM linkis_cg_manager_service_instance WHERE name = 'linkis-cg-engineconn'")
	suffix, _ := filepath.Rel(filepath.Join(l.h.ecm.dir, "engines"), filepath.Join(folder, "logs"))
	m, err := l.rest(l.manager, http.MethodPost, "linkisManager/openEngineLog", map[string]any{
		"applicationName": "linkis-cg-engineconn", "emInstance": l.h.instance(), "instance": row[0],
		"parameters": map[string]any{"logType": "stdout", "fromLine": 0, "pageSize": 1000, "logDirSuffix": suffix},
	}, patience)
	if text := fmt.Sprint(m.Data); err != nil || m.Status != 0 || !strings.Contains(text, a.GetId()) {
		t.Errorf("openEngineLog: %v %v: want the engine's log with its ticket %s", m, err, a.GetId())
	}
}

// bursarShows: the engine is ready, and the line that a script prints is in its output at the
// coordinator.
func (l *launching) bursarShows(t *testing.T) {
	a, _, _ := l.only()
	if a.GetPhase() != bursarv1.Phase_PHASE_READY {
		t.Errorf("the engine's phase is %v: want ready", a.GetPhase())
	}
	const line = "shown-by-bursar"
	if status := l.ends(l.submit("echo " + line)); status != "Succeed" {
		t.Errorf("the script has ended with %s", status)
	}
	eventually(t, "Bursar has the script's line", func() error {
		text, err := l.output(a.GetId(), bursarv1.OutputStream_OUTPUT_STREAM_STDOUT)
		if err == nil && !strings.Contains(string(text), line) {
			err = fmt.Errorf("%d bytes of output", len(text))
		}
		return err
	})
}

// output reads all that an engine has written to a stream so far, from the coordinator.
func (l *launching) output(id string, from bursarv1.OutputStream) (text []byte, err error) {
	answers, err := l.bursar.Engines().Logs(l.t.Context(), &bursarv1.LogsRequest{Id: id, Stream: from})
	if err != nil {
		return nil, err
	}
	defer answers.Close()
	for answers.Receive() {
		text = append(text, answers.Msg().GetData()...)
	}
	return text, answers.Err()
}

// memoryFile reads a file of the cgroup that limits the memory of a process: its name in version 1,
// or in version 2. The cgroup must be the allocation's own.
func memoryFile(pid int, id, version1, version2 string) (string, error) {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || parts[1] != "memory" && parts[0] != "0" || !strings.Contains(parts[2], id) {
			continue
		}
		for _, file := range []string{"/sys/fs/cgroup/memory" + parts[2] + "/" + version1, "/sys/fs/cgroup" + parts[2] + "/" + version2} {
			if text, err := os.ReadFile(file); err == nil {
				return strings.TrimSpace(string(text)), nil
			}
		}
	}
	return "", fmt.Errorf("pid %d is in no cgroup of %s that limits memory:\n%s", pid, id, groups)
}

// memoryIsLimited: the kernel ends the script, and the engine goes on.
func (l *launching) memoryIsLimited(t *testing.T) {
	a, jvm, _ := l.only()
	// It ends by itself at 3 GB if there is no limit, and is told so.
	id := l.submit("(ulimit -v 3000000; tail /dev/zero) || exit 3")
	if status := l.ends(id); status != "Failed" {
		t.Errorf("the script has ended with %s, want Failed", status)
	}
	events, err := memoryFile(jvm, a.GetId(), "memory.oom_control", "memory.events")
	if err != nil || !strings.Contains(events, "oom_kill ") || strings.HasSuffix(events, "oom_kill 0") || strings.Contains(events, "oom_kill 0\n") {
		t.Errorf("the kernel has killed no process of the engine: %q %v", events, err)
	}
	if again, still, _ := l.only(); again.GetId() != a.GetId() || still != jvm {
		t.Errorf("the engine is another one: %v, pid %d", again, still)
	}
}

// ends waits until a script has ended, and returns how.
func (l *launching) ends(id string) (status string) {
	l.t.Helper()
	eventually(l.t, "the script has ended", func() error {
		m, err := l.rest(l.entrance, http.MethodGet, "entrance/"+id+"/status", nil, patience)
		if status, _ = m.Data["status"].(string); err == nil && status != "Succeed" && status != "Failed" {
			err = fmt.Errorf("%v", m.Data)
		}
		return err
	})
	return status
}

// shellIsKilled: what the agent has started is the engine's script. Without it the engine goes on,
// and the ECM does not say that it has ended, however long that takes. Then Linkis's own request
// ends the engine.
func (l *launching) shellIsKilled(t *testing.T) {
	e := l.mustCreate("384m")
	a, jvm, _ := l.only()
	shell := int(a.GetProcess().GetPid())
	if shell == jvm {
		t.Fatalf("pid %d is the engine's JVM: want that of its script", shell)
	}
	l.kill(shell)
	const completed = "6" // from ShuttingDown on
	// The ECM waits 20 s for the release of an engine that has ended.
	proc.Always(t, 25*time.Second, pollEvery, "the engine goes on", func() error {
		rows, err := l.db.query("SELECT instance_status FROM linkis_cg_manager_service_instance_metrics WHERE instance = ?", e.instance)
		if err == nil && (len(rows) != 1 || rows[0] >= completed) {
			err = fmt.Errorf("Linkis has the status %v: want one of an engine that runs", rows)
		}
		if now := l.allocation(e.ticket); now.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE || !proc.Alive(jvm) {
			err = errors.Join(err, fmt.Errorf("it has not survived its script: %v", now))
		}
		return err
	})
	l.stopByLinkis(e)
	if proc.Alive(jvm) {
		t.Errorf("the engine's JVM %d lives", jvm)
	}
}

// linkisStops: Linkis's own request ends the engine and all its processes through the agent.
func (l *launching) linkisStops(t *testing.T) {
	e := l.mustCreate("384m")
	_, jvm, _ := l.only()
	l.stopByLinkis(e)
	if proc.Alive(jvm) {
		t.Errorf("the engine's JVM %d lives", jvm)
	}
	a := l.allocation(e.ticket)
	t.Logf("%v: %s", a.GetState(), a.GetReason())
	if !strings.Contains(a.GetReason(), "Linkis") {
		t.Errorf("want a reason that names Linkis: %q", a.GetReason())
	}
}

// stopByLinkis has Linkis end an engine, and waits until it and its rows are gone.
func (l *launching) stopByLinkis(e engine) {
	l.t.Helper()
	m, err := l.rest(l.manager, http.MethodPost, "linkisManager/rm/enginekill",
		[]map[string]string{{"engineInstance": e.instance, "applicationName": "linkis-cg-engineconn"}}, patience)
	if err != nil || m.Status != 0 {
		l.t.Errorf("enginekill: %v %v", m, err)
	}
	proc.Eventually(l.t, ended, pollEvery, "it is released, and its rows are gone", func() error {
		var errs error
		if state := l.allocation(e.ticket).GetState(); state != bursarv1.AllocationState_ALLOCATION_STATE_RELEASED {
			errs = fmt.Errorf("%v", state)
		}
		return errors.Join(errs, l.noRows(engineRows), l.noRows(resourceRows))
	})
	l.audit()
}

// startFails: Java has too small a heap. Linkis's caller is told what its script printed, and
// nothing is left.
func (l *launching) startFails(t *testing.T) {
	var e engine
	var err error
	// What an ECM tells before LinkisManager has the address is lost: the creation times out then.
	for range 3 {
		e, err = l.create("8m")
		t.Logf("Linkis says: %v", err)
		if err == nil || !strings.Contains(err.Error(), "TimeoutException") {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "OutOfMemoryError") {
		t.Errorf("want what the engine's script has printed: engine %v, %v", e, err)
	}
	l.awaitNothing("after the failed start")
	if left := l.processes("engineConnExec.sh"); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// ecmIsRestarted: an engine that the agent has started goes on without its ECM, and can be stopped
// by the next one.
func (l *launching) ecmIsRestarted(t *testing.T) {
	e := l.mustCreate("256m")
	_, jvm, _ := l.only()
	l.h.ecm.Kill()
	l.h.ecm.Start()
	l.h.ecm.listed()
	if a := l.allocation(e.ticket); a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE || !proc.Alive(jvm) {
		t.Fatalf("the engine has not survived its ECM: %v", a)
	}
	l.stopByLinkis(e)
	if proc.Alive(jvm) {
		t.Errorf("the engine's JVM %d lives", jvm)
	}
	l.awaitNothing("at the end")
}
