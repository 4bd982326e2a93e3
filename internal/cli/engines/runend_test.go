package engines

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestRunEndsWithWhatStoppedIt(t *testing.T) {
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer nothing.Close()
	c := cmdline.New(cmdline.Streams{In: nothing, Out: nothing, Err: nothing}, "test")
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
	never := connect.NewWireError(connect.CodeResourceExhausted, errors.New("why"))
	detail, err := connect.NewErrorDetail(&bursarv1.InsufficientResources{Reason: "refused", Verdict: bursarv1.InsufficientResources_VERDICT_NEVER})
	if err != nil {
		t.Fatal(err)
	}
	never.AddDetail(detail)
	for name, c2 := range map[string]struct {
		err  error
		want int
	}{
		"its own end":      {nil, 3},
		"released nowhere": {failed(client.PhaseRelease, connect.CodeUnavailable), 3},
		"refused":          {failed(client.PhaseAllocate, connect.CodeResourceExhausted), 75},
		"refused for good": {&client.RunError{
			Phase: client.PhaseAllocate, Err: never,
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
		if got := failure.ExitCode(runEnd(t.Context(), c.Reporter, away, result, c2.err)); got != c2.want {
			t.Errorf("%s: exit code %d, want %d", name, got, c2.want)
		}
	}
}
