package outputs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// counted writes the numbers from 1 to n, a line each, and waits for a file in the middle.
func (p *place) counted(name string, n int) (id, open string) {
	open = filepath.Join(p.dir, name)
	return p.engine(name, fmt.Sprintf("seq 1 %d; while [ ! -e %s ]; do sleep 0.05; done; seq %d %d", n/2, open, n/2+1, n)), open
}

// isCounted checks that a reader has got all lines, once and in order.
func isCounted(t *testing.T, who string, data []byte, n int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i, line := range lines {
		if line != strconv.Itoa(i+1) {
			t.Errorf("%s: line %d is %q", who, i+1, line)
			return
		}
	}
	if len(lines) != n {
		t.Errorf("%s: %d lines, want %d", who, len(lines), n)
	}
}

// A reader that follows an engine sees nothing of a restart of the host's agent.
func TestAReaderSeesNothingOfARestartOfTheAgent(t *testing.T) {
	p := setUp(t, 2)
	leader, standby := p.leader()
	const n = 20_000
	id, open := p.counted("restart", n)
	half, done := make(chan struct{}, 2), make(chan *got, 2)
	for _, m := range []*member{leader, standby} {
		engines := p.visit(m, "alice").Engines()
		go func() {
			told := false
			g, err := read(t.Context(), engines, follow(id), func(g *got) bool {
				if !told && strings.Contains(string(g.data), "\n"+strconv.Itoa(n/2)+"\n") {
					told = true
					half <- struct{}{}
				}
				return false
			})
			if err != nil {
				t.Errorf("%s: %v", m.url, err)
			}
			done <- g
		}()
	}
	<-half
	<-half
	p.agent.stop(t)
	p.startAgent()
	if err := os.WriteFile(open, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if g := <-done; g != nil {
			isCounted(t, "a follower", g.data, n)
		}
	}
	if g, err := read(t.Context(), p.visit(leader, "alice").Engines(), stdout(id), nil); err != nil {
		t.Error(err)
	} else {
		isCounted(t, "a reader afterwards", g.data, n)
	}
}

// A reader sees nothing of a change of leader, whether it begins before or after.
func TestAReaderSeesNothingOfAChangeOfLeader(t *testing.T) {
	p := setUp(t, 3)
	const n = 20_000
	id, open := p.counted("leader", n)
	half, done := make(chan struct{}, 3), make(chan *got, 6)
	begin := func(m *member) {
		engines := p.visit(m, "alice").Engines()
		told := false
		g, err := read(t.Context(), engines, follow(id), func(g *got) bool {
			if !told && strings.Contains(string(g.data), "\n"+strconv.Itoa(n/2)+"\n") {
				told = true
				select {
				case half <- struct{}{}:
				default:
				}
			}
			return false
		})
		if err != nil {
			t.Errorf("%s: %v", m.url, err)
		}
		done <- g
	}
	for _, m := range p.members {
		go begin(m)
	}
	for range p.members {
		<-half
	}
	p.lock.depose()
	for _, m := range p.members { // nobody may lead yet
		go begin(m)
	}
	if err := os.WriteFile(open, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		if g := <-done; g != nil {
			isCounted(t, "a follower", g.data, n)
		}
	}
}

// A reader that takes nothing holds up itself alone, while twenty others read, of the same engine
// too.
func TestAReaderThatNeverReadsHoldsUpNobody(t *testing.T) {
	p := setUp(t, 1)
	leader, _ := p.leader()
	const size = 8 << 20
	id := p.engine("writes", fmt.Sprintf("head -c %d /dev/zero; sleep 600", size))
	stuck, err := p.visit(leader, "alice").Engines().Logs(t.Context(), follow(id))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stuck.Close() })
	done := make(chan int, 20)
	for i := range cap(done) {
		name := []string{"alice", "olga"}[i%2]
		engines := p.visit(leader, name).Engines()
		go func() {
			g, err := read(t.Context(), engines, follow(id), func(g *got) bool { return len(g.data) == size })
			if err != nil {
				t.Error(err)
				g = &got{}
			}
			done <- len(g.data)
		}()
	}
	for range cap(done) {
		if n := <-done; n != size {
			t.Errorf("%d bytes", n)
		}
	}
}

// Output is for those who may see error_output.
func TestOthersOutputIsRefused(t *testing.T) {
	p := setUp(t, 2)
	leader, standby := p.leader()
	id := p.engine("secret", "echo secret")
	waiting, err := p.visit(leader, "alice").Allocations().Allocate(t.Context(), &bursarv1.AllocateRequest{
		RequestId: "reserved", Labels: map[string]string{"user": "alice"}, Resource: &bursarv1.Resource{MemoryBytes: new(int64(1 << 20))},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*member{leader, standby} {
		for _, c := range []struct {
			who, id string
			code    connect.Code
			words   string
		}{
			{"alice", id, 0, ""},
			{"olga", id, 0, ""},
			{"root", id, 0, ""},
			{"bob", id, connect.CodePermissionDenied, "bob may not see the output"},
			{"carol", id, connect.CodePermissionDenied, "carol may not"},
			{"agent", id, connect.CodePermissionDenied, "may not"},
			{"other", id, connect.CodePermissionDenied, "may not"},
			{"alice", "0000000000001", connect.CodeNotFound, "no such allocation"},
			{"alice", "x!", connect.CodeInvalidArgument, "id"},
			{"alice", waiting.GetAllocation().GetId(), connect.CodeFailedPrecondition, "has no engine"},
		} {
			g, err := read(t.Context(), p.visit(m, c.who).Engines(), stdout(c.id), nil)
			if code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("%s reads %s at %s: %v, want %s", c.who, c.id, m.url, err, c.code)
			}
			if c.code != 0 && g != nil && len(g.data) > 0 {
				t.Errorf("%s has got %q", c.who, g.data)
			}
		}
		for _, who := range []string{"alice", "root", "agent"} {
			_, err := p.visit(m, who).Engines().OrderLogs(t.Context(), &bursarv1.OrderLogsRequest{Logs: stdout(id), Url: m.url, Ticket: make([]byte, 32)})
			if connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Errorf("%s orders output: %v", who, err)
			}
		}
	}
}

// A coordinator takes output with a ticket that it waits for, from the agent of that host alone.
func TestOutputWithoutAReaderIsRefused(t *testing.T) {
	p := setUp(t, 1)
	leader, _ := p.leader()
	for _, c := range []struct {
		who, host string
		ticket    []byte
		code      connect.Code
	}{
		{"agent", host, []byte("unknown"), connect.CodeNotFound},
		{"agent", host, nil, connect.CodeNotFound},
		{"other", host, []byte("unknown"), connect.CodePermissionDenied},
		{"alice", host, []byte("unknown"), connect.CodePermissionDenied},
		{"peer", host, []byte("unknown"), connect.CodePermissionDenied},
	} {
		call, err := p.visit(leader, c.who).Hosts().SendOutput(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = call.Send(&bursarv1.SendOutputRequest{HostId: c.host, Ticket: c.ticket}) // the answer says why
		if _, err := call.CloseAndReceive(); connect.CodeOf(err) != c.code {
			t.Errorf("%s sends for %s: %v, want %s", c.who, c.host, err, c.code)
		}
	}
}

// An engine that its caller has started has its output elsewhere, and the error says so.
func TestOutputThatTheAgentDoesNotHave(t *testing.T) {
	p := setUp(t, 2)
	_, standby := p.leader()
	local, err := client.New("unix:" + p.socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(local.Close)
	granted, err := local.Allocations().Allocate(t.Context(), &bursarv1.AllocateRequest{
		RequestId: "own", Labels: map[string]string{"user": "alice"}, Resource: &bursarv1.Resource{MemoryBytes: new(int64(1 << 20))},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := granted.GetAllocation().GetId()
	engine := exec.CommandContext(t.Context(), "sleep", "600")
	if err := engine.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Wait() })
	if _, err := local.Allocations().Confirm(t.Context(), &bursarv1.ConfirmRequest{Id: id, Process: &bursarv1.Process{Pid: int32(engine.Process.Pid)}}); err != nil {
		t.Fatal(err)
	}
	_, err = read(t.Context(), p.visit(standby, "olga").Engines(), stdout(id), nil)
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "started its engine: the output is where that caller directed it") {
		t.Errorf("%v", err)
	}
}

// A reader that leaves is not waited for: its helper ends on the host.
func TestHelpersEndWithTheirReaders(t *testing.T) {
	p := setUp(t, 2)
	_, standby := p.leader()
	id := p.engine("idle", "echo one; sleep 600")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	if _, err := read(ctx, p.visit(standby, "alice").Engines(), follow(id), func(g *got) bool { return len(g.data) == 4 }); err != nil {
		t.Fatal(err)
	}
	// Before a keep-alive would find out.
	proc.Until(t, 10*time.Second, 20*time.Millisecond, "no helper runs", func() bool { return helpers(t, p.dir) == 0 })
}
