package failure

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
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
		"usage":              {Usagef("what?"), 64},
		"not UTF-8":          {connect.NewError(connect.CodeUnknown, &NotUTF8Error{"reason", "\xff"}), 64},
		"bad target":         {&client.TargetError{Target: "x", Reason: "no port"}, 64},
		"wrong file":         {&yamlfile.Error{File: "q.yaml"}, 65},
		"not unique":         {&AmbiguousError{What: "host", Prefix: "v"}, 65},
		"invalid":            {call(connect.CodeInvalidArgument), 65},
		"out of range":       {call(connect.CodeOutOfRange), 65},
		"taken":              {call(connect.CodeAlreadyExists), 65},
		"unknown id":         {&NoSuchError{"host", "v"}, 66},
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
		"configuration":      {Config(&yamlfile.Error{File: "c.yaml"}), 78},
		"command's own":      {&ExitError{Code: 7}, 7},
		"of several, the id": {errors.Join(&NoSuchError{"host", "v"}), 66},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d", name, got, c.want)
		}
	}
}

func verdict(v bursarv1.InsufficientResources_Verdict) *bursarv1.InsufficientResources {
	return &bursarv1.InsufficientResources{Reason: "refused", Verdict: v}
}
