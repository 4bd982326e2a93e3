package losses

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/access"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// The account that engines from elsewhere run as. Every machine has it.
const remoteAccount = "nobody"

// startRemote starts a place in which alice, who is on no host, may have engines started. engines
// is what the agent's file says of that.
func startRemote(t *testing.T, engines string) (p *place, alice *client.Client) {
	t.Helper()
	return startRemoteEvery(t, engines, tick)
}

// startRemoteEvery has another time between two heartbeats.
func startRemoteEvery(t *testing.T, engines string, interval time.Duration) (p *place, alice *client.Client) {
	t.Helper()
	p = newPlace(t, settings{})
	tokens := map[string]string{"alice": access.NewToken(), "agent": access.NewToken(), "root": access.NewToken()}
	identities := p.write("identities.yaml", fmt.Sprintf(`identities:
- {name: alice, role: submitter, users: [alice], mayLaunch: [%s], tokenHash: '%s'}
- {name: agent, role: agent, host: %s, tokenHash: '%s'}
- {name: root, role: admin, tokenHash: '%s'}
`, remoteAccount, access.Hash(tokens["alice"]), hostID, access.Hash(tokens["agent"]), access.Hash(tokens["root"])))
	p.write("coordinator.yaml", fmt.Sprintf("listen: %s\ndataDir: %s\nidentities: %s\nauditLog: %s\ntimes:\n  interval: %s\n  suspectAfter: 30\n",
		p.address, p.data(), identities, filepath.Join(p.dir, "audit.log"), interval))
	p.write("agent.yaml", p.agentConfig(p.socket, p.state(), "  cgroups: none\n  logDir: "+filepath.Join(p.dir, "logs")+"\n"+engines+"tokenFile: "+p.write("agent.token", tokens["agent"])+"\n"))
	for name, mode := range map[string]os.FileMode{p.dir: 0o755, filepath.Join(p.dir, "out"): 0o777, filepath.Join(p.dir, "logs"): 0o755} {
		if err := os.MkdirAll(name, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
	}
	p.write("alice.token", tokens["alice"])
	var err error
	if alice, err = client.New(p.address, client.WithToken(func() (string, error) { return tokens["alice"], nil })); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(alice.Close)
	if p.remote, err = client.New(p.address, client.WithToken(func() (string, error) { return tokens["root"], nil })); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.remote.Close)
	p.startCoordinator()
	p.startAgent()
	t.Cleanup(p.killActive)
	return p, alice
}

// killActive ends the engines that are left at the end of a test, while a coordinator knows them.
func (p *place) killActive() {
	list, err := p.remote.Allocations().List(context.Background(), &bursarv1.AllocationServiceListRequest{States: []bursarv1.AllocationState{active}})
	if err != nil {
		return // the test has ended the coordinator, and so has no such engine
	}
	for _, a := range list.GetAllocations() {
		_ = proc.Hold(p.t, int(a.GetProcess().GetPid())).SignalGroup(syscall.SIGKILL) // it may have ended
	}
}

// allowed lets the account run.
const allowed = "  remote: {accounts: [" + remoteAccount + "]}\n"

func startOf(id, script string) *bursarv1.StartRequest {
	return &bursarv1.StartRequest{
		Request: &bursarv1.AllocateRequest{
			RequestId: id, Name: id, Labels: map[string]string{"user": "alice"}, Wait: durationpb.New(time.Minute),
			Resource: &bursarv1.Resource{MemoryBytes: new(8 * mib), CpuMillis: new(int64(10))},
		},
		Launch: &bursarv1.LaunchSpec{Account: remoteAccount, Command: []string{"/bin/sh", "-c", script}, WorkingDirectory: "/"},
	}
}

// A caller that is on no host starts an engine, waits for its end, and has its exit code. Neither
// the command nor its secrets are in any file of the coordinator once the engine has begun.
func TestAnEngineIsStartedFromElsewhere(t *testing.T) {
	t.Parallel()
	p, alice := startRemote(t, allowed)
	out := filepath.Join(p.dir, "out", "said")
	req := startOf("first", "id -un >"+out+"; echo $SECRET $BURSAR_LABEL_user >>"+out+"; echo words >&2; exit 4")
	req.Secrets = map[string]string{"SECRET": "hunter2"}
	started, err := alice.Engines().Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	a := started.GetAllocation()
	if a.GetHostId() != hostID || a.GetProcess().GetPid() == 0 || a.GetCaller() != "alice" || a.GetLaunch().GetAccount() != remoteAccount {
		t.Errorf("started: %v", a)
	}
	waited, err := alice.Engines().Wait(t.Context(), &bursarv1.WaitRequest{Id: a.GetId()})
	if err != nil || waited.GetAllocation().GetExitStatus().GetCode() != 4 || waited.GetAllocation().GetErrorOutput() != "words" {
		t.Errorf("waited: %v, %v", waited, err)
	}
	if said := read(t, out); said != remoteAccount+"\nhunter2 alice\n" {
		t.Errorf("it said %q", said)
	}
	again, err := alice.Engines().Start(t.Context(), req)
	if err != nil || again.GetAllocation().GetId() != a.GetId() {
		t.Errorf("again: %v, %v", again, err)
	}
	missing := startOf("missing", "")
	missing.Launch.Command = []string{"/no/such/program"}
	if _, err := alice.Engines().Start(t.Context(), missing); connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "on host "+hostID+": command[0]") {
		t.Errorf("a program that is not there: %v", err)
	}
	p.shut(p.coordinator)
	for _, folder := range []string{p.data(), filepath.Join(p.dir, "audit.log")} {
		_ = filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && strings.Contains(read(t, path), "hunter2") {
				t.Errorf("%s has the secret", path)
			}
			return err
		})
	}
	for _, server := range []*proc.Process{p.coordinator, p.agent} {
		if strings.Contains(server.Output.String(), "hunter2") {
			t.Errorf("%s has logged the secret", server.Name)
		}
	}
}

// Nothing is started for callers elsewhere unless the agent's file names the account.
func TestAHostStartsNothingForOthersByDefault(t *testing.T) {
	t.Parallel()
	_, alice := startRemote(t, "")
	if _, err := alice.Engines().Start(t.Context(), startOf("first", "true")); connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "launches nothing as it") {
		t.Errorf("%v", err)
	}
}

// While agent and coordinator are killed at any moment, each engine begins at most once, and each
// caller hears what became of its own.
func TestEnginesStartedFromElsewhereBeginOnce(t *testing.T) {
	t.Parallel()
	const starts = 24
	p, alice := startRemote(t, allowed)
	var callers sync.WaitGroup
	ended := make([]*bursarv1.Allocation, starts)
	for i := range starts {
		callers.Go(func() {
			name := fmt.Sprint("job-", i)
			req := startOf(name, fmt.Sprintf("echo began >>%s; sleep 1", filepath.Join(p.dir, "out", name)))
			ended[i] = insist(t, alice, req)
		})
	}
	for range 3 {
		awaitAny(t, filepath.Join(p.dir, "out"))
		p.agent.Signal(syscall.SIGKILL)
		<-p.agent.Ended()
		p.startAgent()
		p.coordinator.Signal(syscall.SIGKILL)
		<-p.coordinator.Ended()
		p.startCoordinator()
	}
	callers.Wait()
	began := 0
	for i, a := range ended {
		content, _ := os.ReadFile(filepath.Join(p.dir, "out", fmt.Sprint("job-", i))) // there is none if it did not begin
		times := strings.Count(string(content), "began")
		began += times
		exit := a.GetExitStatus()
		switch ran := exit != nil && exit.Code != nil && exit.GetCode() == 0; {
		case times > 1:
			t.Errorf("job-%d began %d times: %v", i, times, a)
		case ran && times != 1:
			t.Errorf("job-%d began %d times, and is said to have run: %v", i, times, a)
		}
	}
	if began < starts*3/4 { // others were killed between the agent's last word and their exec
		t.Errorf("%d of %d began", began, starts)
	}
	t.Logf("%d of %d began", began, starts)
}

// insist starts an engine and waits for its end, whoever leads.
func insist(t *testing.T, c *client.Client, req *bursarv1.StartRequest) *bursarv1.Allocation {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		started, err := c.Engines().Start(ctx, req)
		if code := connect.CodeOf(err); err != nil && (code == connect.CodeFailedPrecondition || code == connect.CodeResourceExhausted) {
			return nil // it did not start, and says why
		}
		if err != nil { // nobody leads, or the call was cut
			waitABit(ctx)
			continue
		}
		for ctx.Err() == nil {
			waited, err := c.Engines().Wait(ctx, &bursarv1.WaitRequest{Id: started.GetAllocation().GetId()})
			if err == nil {
				return waited.GetAllocation()
			}
			waitABit(ctx)
		}
	}
	t.Errorf("%s: no end within two minutes", req.GetRequest().GetRequestId())
	return nil
}

// waitABit is the pause of a caller before it tries again.
func waitABit(ctx context.Context) {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// awaitAny waits until another engine has begun.
func awaitAny(t *testing.T, folder string) {
	t.Helper()
	before, _ := os.ReadDir(folder) // it is there
	eventually(t, "another engine begins", func() error {
		if now, _ := os.ReadDir(folder); len(now) == len(before) {
			return errNotYet
		}
		return nil
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
