package orders

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/launch"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// records are the lines of a log.
type records struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (r *records) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(line)
}

// count is how many lines have some words.
func (r *records) count(words string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(r.text.String()) {
		if strings.Contains(line, words) {
			n++
		}
	}
	return n
}

// audits are the audit records.
func (r *records) audits() (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(r.text.String()) {
		if strings.Contains(line, "audit=true") {
			lines = append(lines, line)
		}
	}
	return lines
}

// Each order has one audit record, whatever became of it. Neither it nor the answer has arguments,
// variables or secrets.
func TestOrdersHaveAuditRecords(t *testing.T) {
	policy := standard()
	r := newRig(t, policy)
	revision := uint64(200)
	for name, c := range map[string]struct {
		spec  *bursarv1.LaunchSpec
		words []string
	}{
		"refused by the policy":   {&bursarv1.LaunchSpec{Account: "admin", Command: []string{"/bin/true", "hunter2"}}, []string{"account=admin", "program=/bin/true", "caller=alice", "code=refused", "deniedGroups"}},
		"a bad argument":          {&bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true", "hunter2\x00"}}, []string{"code=failed", "command[1]"}},
		"a bad working directory": {&bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}, WorkingDirectory: "hunter2"}, []string{"code=failed", "working_directory"}},
		"a bad environment":       {&bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}, Environment: map[string]string{"A": "hunter2\x00"}}, []string{"code=failed", "environment"}},
		"a bad secret":            {&bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}}, []string{"code=failed", "environment"}},
	} {
		before := len(r.log.audits())
		order := orderOf(t, "granted", c.spec)
		if name == "a bad secret" {
			order = orderOf(t, "granted", c.spec, "PASSWORD", "hunter2\x00")
		}
		revision++
		order.GetLaunch().GrantRevision = revision
		r.orders <- order
		answer := r.next(t)
		lines := r.log.audits()[before:]
		if len(lines) != 1 {
			t.Errorf("%s: %d records: %q", name, len(lines), lines)
			continue
		}
		for _, word := range append(c.words, "order=launch", "allocation_id=granted") {
			if !strings.Contains(lines[0], word) {
				t.Errorf("%s: %q has no %q", name, lines[0], word)
			}
		}
		if strings.Contains(lines[0]+answer.GetFailed().GetReason(), "hunter2") || answer.GetFailed() == nil {
			t.Errorf("%s: %q, %v", name, lines[0], answer)
		}
	}
	before := len(r.log.audits())
	r.orders <- orderOf(t, "granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true", "hunter2"}}, "PASSWORD", "hunter2")
	r.next(t)
	r.next(t)
	if lines := r.log.audits()[before:]; len(lines) != 1 || !strings.Contains(lines[0], "code=ok") || strings.Contains(lines[0], "hunter2") {
		t.Errorf("launched: %q", lines)
	}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if strings.Contains(r.log.text.String(), "hunter2") {
		t.Errorf("the log has it: %s", r.log.text.String())
	}
}

// A caller elsewhere ends as a shell does if its program is not there, so the fault goes along.
func TestTheFaultOfAProgramGoesAlong(t *testing.T) {
	for fault, want := range map[keeper.Fault]bursarv1.LaunchFault{
		keeper.NoFault: bursarv1.LaunchFault_LAUNCH_FAULT_UNSPECIFIED, keeper.NotFound: bursarv1.LaunchFault_LAUNCH_FAULT_NOT_FOUND,
		keeper.NotExecutable: bursarv1.LaunchFault_LAUNCH_FAULT_NOT_EXECUTABLE,
	} {
		r := newRig(t, standard())
		r.fails = connect.NewError(connect.CodeInvalidArgument, &launch.FieldError{Field: "command[0]", Value: "x", Want: "y", Err: errors.New("is not there"), Fault: fault})
		r.orders <- orderOf(t, "granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}})
		if answer := r.next(t); answer.GetFailed() == nil || answer.GetFailed().GetFault() != want {
			t.Errorf("%v; want the fault %s", answer, want)
		}
	}
}
