package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/yamlfile"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestEveryErrorHasItsExitCode(t *testing.T) {
	call := func(code connect.Code) error {
		return fmt.Errorf("call: %w", connect.NewError(code, errors.New("why")))
	}
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"none":               {nil, 0},
		"any":                {errors.New("odd"), 1},
		"usage":              {usagef("what?"), 64},
		"not UTF-8":          {connect.NewError(connect.CodeUnknown, &notUTF8Error{"reason", "\xff"}), 64},
		"bad target":         {&client.TargetError{Target: "x", Reason: "no port"}, 64},
		"wrong file":         {&yamlfile.Error{File: "q.yaml"}, 65},
		"not unique":         {&ambiguousError{what: "host", prefix: "v"}, 65},
		"invalid":            {call(connect.CodeInvalidArgument), 65},
		"out of range":       {call(connect.CodeOutOfRange), 65},
		"taken":              {call(connect.CodeAlreadyExists), 65},
		"unknown id":         {&noSuchError{"host", "v"}, 66},
		"missing file":       {&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}, 66},
		"not found":          {call(connect.CodeNotFound), 66},
		"unavailable":        {call(connect.CodeUnavailable), 69},
		"missing socket":     {connect.NewError(connect.CodeUnavailable, &fs.PathError{Err: fs.ErrNotExist}), 69},
		"too late":           {call(connect.CodeDeadlineExceeded), 69},
		"exhausted":          {call(connect.CodeResourceExhausted), 75},
		"never":              {refusedFor(t, connect.CodeResourceExhausted, verdict(bursarv1.InsufficientResources_VERDICT_NEVER)), 65},
		"not now":            {refusedFor(t, connect.CodeResourceExhausted, verdict(bursarv1.InsufficientResources_VERDICT_NOT_NOW)), 75},
		"never, old server":  {refusedFor(t, connect.CodeResourceExhausted, &bursarv1.InsufficientResources{Reason: "never"}), 75},
		"denied":             {call(connect.CodePermissionDenied), 77},
		"unauthenticated":    {call(connect.CodeUnauthenticated), 77},
		"precondition":       {call(connect.CodeFailedPrecondition), 1},
		"canceled":           {call(connect.CodeCanceled), 1},
		"internal":           {call(connect.CodeInternal), 1},
		"configuration":      {configError(&yamlfile.Error{File: "c.yaml"}), 78},
		"damaged store":      {serverError(&store.RefusedError{Reason: store.Damaged}), 78},
		"store in use":       {serverError(&store.RefusedError{Reason: store.InUse}), 1},
		"command's own":      {&exitError{code: 7}, 7},
		"of several, the id": {errors.Join(&noSuchError{"host", "v"}), 66},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d", name, got, c.want)
		}
	}
}

func verdict(v bursarv1.InsufficientResources_Verdict) *bursarv1.InsufficientResources {
	return &bursarv1.InsufficientResources{Reason: "refused", Verdict: v}
}

func TestRunEndsWithWhatStoppedIt(t *testing.T) {
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer nothing.Close()
	c := newCLI(streams{nothing, nothing, nothing})
	away, err := client.New("127.0.0.1:1", client.WithoutRetries()) // nobody's
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("sh", "-c", "exit 3")
	_ = command.Run()
	result := client.RunResult{State: command.ProcessState}
	failed := func(phase client.Phase, code connect.Code) error {
		return &client.RunError{Phase: phase, Err: connect.NewError(code, errors.New("why"))}
	}
	for name, c2 := range map[string]struct {
		err  error
		want int
	}{
		"its own end":      {nil, 3},
		"released nowhere": {failed(client.PhaseRelease, connect.CodeUnavailable), 3},
		"refused":          {failed(client.PhaseAllocate, connect.CodeResourceExhausted), 75},
		"refused for good": {&client.RunError{
			Phase: client.PhaseAllocate, Err: refusedFor(t, connect.CodeResourceExhausted, verdict(bursarv1.InsufficientResources_VERDICT_NEVER)),
		}, 65},
		"reservation expired":      {failed(client.PhaseConfirm, connect.CodeFailedPrecondition), 75},
		"reservation forgotten":    {failed(client.PhaseConfirm, connect.CodeNotFound), 75},
		"agent gone":               {failed(client.PhaseConfirm, connect.CodeUnavailable), 69},
		"somebody else's":          {failed(client.PhaseConfirm, connect.CodePermissionDenied), 77},
		"no such command":          {&client.RunError{Phase: client.PhaseStart, Err: exec.ErrNotFound}, 127},
		"no such file":             {&client.RunError{Phase: client.PhaseStart, Err: fs.ErrNotExist}, 127},
		"not executable":           {&client.RunError{Phase: client.PhaseStart, Err: fs.ErrPermission}, 126},
		"interrupted before start": {&client.RunError{Phase: client.PhaseStart, Err: context.Canceled}, 1},
	} {
		if got := exitCode(runEnd(t.Context(), c.reporter, away, result, c2.err)); got != c2.want {
			t.Errorf("%s: exit code %d, want %d", name, got, c2.want)
		}
	}
}

func TestPrefixNamesOneThingOrSeveral(t *testing.T) {
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("vm-%d", i))
	}
	if id, err := unique("host", "vm-1", many); id != "vm-1" || err != nil {
		t.Errorf("the whole id: %q, %v", id, err)
	}
	if id, err := unique("host", "vm-", many[:1]); id != "vm-0" || err != nil {
		t.Errorf("a prefix of one: %q, %v", id, err)
	}
	if id, err := unique("host", "x", nil); id != "" || err != nil {
		t.Errorf("a prefix of none: %q, %v", id, err)
	}
	_, err := unique("host", "vm-", many)
	want := `"vm-" is the beginning of several hosts: vm-0, vm-1, vm-2, vm-3, vm-4, vm-5, vm-6, vm-7, …`
	if err == nil || err.Error() != want {
		t.Errorf("a prefix of many: %v\nwant %s", err, want)
	}
}
