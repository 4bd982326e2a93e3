//go:build linux

package ha

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// remoteAccount is the account that engines from elsewhere run as. Every machine has it.
const remoteAccount = "nobody"

// remoteAgents makes the folders of such engines, and is what an agent's file says of them.
func (c *cluster) remoteAgents() string {
	c.t.Helper()
	for name, mode := range map[string]os.FileMode{"out": 0o777, "logs": 0o755} {
		if err := os.Mkdir(filepath.Join(c.dir, name), mode); err != nil {
			c.t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(c.dir, name), mode); err != nil { // whatever the umask is
			c.t.Fatal(err)
		}
	}
	return fmt.Sprintf("engines:\n  cgroups: none\n  logDir: %s\n  remote: {accounts: [%s]}\n", filepath.Join(c.dir, "logs"), remoteAccount)
}

// remoteJob is an engine that a caller on no host starts, reads and waits for.
type remoteJob struct {
	c      *cluster
	number int
	// blocks is how much it writes, and keep how many bytes of each file stay; 0: all.
	blocks int
	keep   int64

	id        string
	allocated *bursarv1.Allocation
	// stdout and stderr are all that was read while it ran; breaks is how often reading began
	// again.
	stdout, stderr bytes.Buffer
	breaks         atomic.Int64
}

func (j *remoteJob) name() string { return fmt.Sprint("job-", j.number) }
func (j *remoteJob) code() int32  { return int32(j.number % 50) }
func (j *remoteJob) began() string {
	return filepath.Join(j.c.dir, "out", j.name())
}

// block is what a job writes to a stream in one go.
func (j *remoteJob) block(stream string, n int) string {
	return strings.Repeat(fmt.Sprintf("%s of %s, block %d ...............................................\n", stream, j.name(), n), 20)
}

func (j *remoteJob) whole(stream string) []byte {
	var all bytes.Buffer
	for n := range j.blocks {
		all.WriteString(j.block(stream, n))
	}
	return all.Bytes()
}

// script counts each start in a file, and writes its blocks in about 40 s.
func (j *remoteJob) script() string {
	return fmt.Sprintf(`echo began >>%s
n=0
while [ $n -lt %d ]; do
  i=0
  while [ $i -lt 20 ]; do
    echo "stdout of %[3]s, block $n ..............................................."
    echo "stderr of %[3]s, block $n ..............................................." >&2
    i=$((i+1))
  done
  n=$((n+1))
  sleep 2
done
exit %d`, j.began(), j.blocks, j.name(), j.code())
}

// run starts the job, reads both streams while it runs, and waits for its end.
func (j *remoteJob) run(ctx context.Context, gateway *client.Client) error {
	launch := &bursarv1.LaunchSpec{Account: remoteAccount, Command: []string{"/bin/sh", "-c", j.script()}, WorkingDirectory: "/"}
	if j.keep > 0 {
		launch.Logs = &bursarv1.LaunchLogs{MaxBytes: j.keep, Keep: new(int32(1))}
	}
	request := &bursarv1.StartRequest{Launch: launch, Request: &bursarv1.AllocateRequest{
		RequestId: j.name(), Name: j.name(), Labels: map[string]string{"user": fmt.Sprint("remote-", j.number%40)}, Wait: durationpb.New(patience),
		Resource: &bursarv1.Resource{MemoryBytes: new(int64(1 << 20)), CpuMillis: new(int64(1))},
	}}
	started, err := insist(ctx, func() (*bursarv1.StartResponse, error) { return gateway.Engines().Start(ctx, request) })
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	j.id = started.GetAllocation().GetId()
	var readers sync.WaitGroup
	problems := make([]error, 2)
	for i, stream := range []bursarv1.OutputStream{bursarv1.OutputStream_OUTPUT_STREAM_STDOUT, bursarv1.OutputStream_OUTPUT_STREAM_STDERR} {
		into := []*bytes.Buffer{&j.stdout, &j.stderr}[i]
		readers.Go(func() { problems[i] = j.follow(ctx, gateway, stream, into) })
	}
	waited, err := insist(ctx, func() (*bursarv1.WaitResponse, error) {
		return gateway.Engines().Wait(ctx, &bursarv1.WaitRequest{Id: j.id})
	})
	readers.Wait()
	j.allocated = waited.GetAllocation()
	return errors.Join(err, problems[0], problems[1])
}

// unanswered are the codes of calls of which nobody knows the outcome.
var unanswered = []connect.Code{
	connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeAborted, connect.CodeCanceled, connect.CodeUnknown,
}

// insist repeats a call that nobody has answered.
func insist[R any](ctx context.Context, call func() (R, error)) (R, error) {
	for {
		answer, err := call()
		if err == nil || ctx.Err() != nil || !slices.Contains(unanswered, connect.CodeOf(err)) {
			return answer, err
		}
		wait(ctx, 200*time.Millisecond)
	}
}

// follow reads a stream to its end, and goes on at the byte at which reading broke off.
func (j *remoteJob) follow(ctx context.Context, gateway *client.Client, stream bursarv1.OutputStream, into *bytes.Buffer) error {
	for {
		ended, err := j.read(ctx, gateway, &bursarv1.LogsRequest{
			Id: j.id, Stream: stream, Start: &bursarv1.LogsRequest_Offset{Offset: int64(into.Len())}, Follow: true,
		}, into)
		switch {
		case ended:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s of %s, at byte %d: %w", stream, j.name(), into.Len(), errors.Join(ctx.Err(), err))
		case connect.CodeOf(err) == connect.CodePermissionDenied, connect.CodeOf(err) == connect.CodeNotFound, connect.CodeOf(err) == connect.CodeInvalidArgument:
			return err
		}
		j.breaks.Add(1)
		wait(ctx, 200*time.Millisecond)
	}
}

// read appends what one call sends. A gap is filled with zero bytes.
func (j *remoteJob) read(ctx context.Context, gateway *client.Client, request *bursarv1.LogsRequest, into *bytes.Buffer) (ended bool, err error) {
	pieces, err := gateway.Engines().Logs(ctx, request)
	if err != nil {
		return false, err
	}
	defer pieces.Close()
	for pieces.Receive() {
		switch piece := pieces.Msg(); {
		case piece.GetEnd() != nil:
			return true, nil
		case piece.GetGap() > 0:
			into.Write(make([]byte, piece.GetGap()))
		default:
			into.Write(piece.GetData())
		}
		if at := pieces.Msg().GetNextOffset(); at != int64(into.Len()) {
			return false, fmt.Errorf("%s: next offset %d after %d bytes", j.name(), at, into.Len())
		}
	}
	return false, pieces.Err()
}

// check says what is wrong with how the job ran.
func (j *remoteJob) check(ctx context.Context, gateway *client.Client) error {
	var problems []error
	content, err := os.ReadFile(j.began())
	if times := strings.Count(string(content), "began"); times != 1 {
		problems = append(problems, fmt.Errorf("it began %d times: %w", times, err))
	}
	if code := j.allocated.GetExitStatus().GetCode(); code != j.code() {
		problems = append(problems, fmt.Errorf("exit code %d, want %d: %v", code, j.code(), j.allocated))
	}
	for _, stream := range []struct {
		name string
		read []byte
		kind bursarv1.OutputStream
	}{{"stdout", j.stdout.Bytes(), bursarv1.OutputStream_OUTPUT_STREAM_STDOUT}, {"stderr", j.stderr.Bytes(), bursarv1.OutputStream_OUTPUT_STREAM_STDERR}} {
		whole := j.whole(stream.name)
		if j.keep == 0 && !bytes.Equal(stream.read, whole) {
			problems = append(problems, fmt.Errorf("%s is not what it wrote: %d bytes, want %d", stream.name, len(stream.read), len(whole)))
		}
		// What is there at the end, from the first byte.
		var after bytes.Buffer
		if ended, err := j.read(ctx, gateway, &bursarv1.LogsRequest{Id: j.id, Stream: stream.kind, Start: &bursarv1.LogsRequest_Offset{}}, &after); err != nil || !ended {
			problems = append(problems, fmt.Errorf("%s after the end: ended %t, %w", stream.name, ended, err))
			continue
		}
		gone := len(whole) - len(bytes.TrimLeft(after.Bytes(), "\x00"))
		if gone < 0 || len(after.Bytes()) != len(whole) || !bytes.Equal(after.Bytes()[gone:], whole[gone:]) {
			problems = append(problems, fmt.Errorf("%s after the end: %d bytes, the first %d gone; it wrote %d", stream.name, after.Len(), gone, len(whole)))
		}
		if cut := gone > 0; cut != (j.keep > 0) {
			problems = append(problems, fmt.Errorf("%s after the end: %d bytes gone, and its files keep %d", stream.name, gone, j.keep))
		}
	}
	return errors.Join(problems...)
}

// TestRemoteStartsThroughFaults starts 200 engines at once for a caller that is on no host, while
// machines and wires fail. Each begins once, its output is whole, its exit code right, and nothing
// is left.
func TestRemoteStartsThroughFaults(t *testing.T) {
	const agents, starts = 8, 200
	c := newCluster(t, size{coordinators: 3, agents: agents, suspectAfter: 30, remote: true}, newTrust(t, agents))
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	jobs := make([]*remoteJob, starts)
	failures := make([]error, starts)
	var callers sync.WaitGroup
	for i := range jobs {
		jobs[i] = &remoteJob{c: c, number: i, blocks: 20}
		if i%20 == 7 {
			jobs[i].keep = 4096
		}
		callers.Go(func() { failures[i] = jobs[i].run(ctx, c.gateway) })
	}
	c.someBegin(20)
	leader := c.leader()
	leader.Kill()
	c.leaderBut(leader)
	leader.Start()
	c.hosts[2].Signal(syscall.SIGKILL)
	<-c.hosts[2].Ended()
	c.hosts[2].Start()
	c.hosts[3].Stop(patience)
	c.hosts[3].Start()
	for _, m := range c.members {
		c.must(c.lab.Cut(m.node, c.lab.Node("hosts-1")))
	}
	wait(ctx, 30*time.Second)
	c.must(c.lab.Heal())
	callers.Wait()
	var breaks int64
	for i, j := range jobs {
		if failures[i] == nil {
			failures[i] = j.check(ctx, c.gateway)
		}
		if failures[i] != nil {
			t.Errorf("%s: %v", j.name(), failures[i])
		}
		breaks += j.breaks.Load()
	}
	t.Logf("%d engines; reading went on at the byte %d times", starts, breaks)
	c.nothingRuns()
	c.audited()
}

// someBegin waits until so many engines have begun.
func (c *cluster) someBegin(number int) {
	c.t.Helper()
	eventually(c.t, fmt.Sprint(number, " engines have begun"), func() error {
		files, err := os.ReadDir(filepath.Join(c.dir, "out"))
		if err == nil && len(files) < number {
			err = fmt.Errorf("%d", len(files))
		}
		return err
	})
}

// nothingRuns fails the test if a process of an engine is left.
func (c *cluster) nothingRuns() {
	c.t.Helper()
	eventually(c.t, "nothing is left running", func() error {
		processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			return err
		}
		i := slices.IndexFunc(processes, func(path string) bool {
			line, err := os.ReadFile(path)
			return err == nil && bytes.Contains(line, []byte(filepath.Join(c.dir, "out")))
		})
		if i >= 0 {
			return fmt.Errorf("%s runs", processes[i])
		}
		return nil
	})
}

// audited fails the test unless the ledger is right.
func (c *cluster) audited() {
	c.t.Helper()
	audit, err := c.admin.Cluster().Audit(c.t.Context(), &bursarv1.AuditRequest{})
	if err != nil || len(audit.GetViolations()) > 0 {
		c.t.Errorf("audit: %v, %v", audit.GetViolations(), err)
	}
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}
