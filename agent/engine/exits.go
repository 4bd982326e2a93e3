package engine

import (
	"fmt"
	"strings"

	"github.com/bursar/bursar/agent/contain"
	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/endreason"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// maxReason bounds the reason of an end, and maxErrorOutput the last lines next to it, in
	// bytes. The contract has room for 1024 characters of each; a heartbeat with more is refused.
	maxReason      = 1000
	maxErrorOutput = 1000
)

func succeeded(exit *bursarv1.ExitStatus) bool { return exit.Code != nil && exit.GetCode() == 0 }

func recordedExit(exit keeper.Exit) *bursarv1.ExitStatus {
	return &bursarv1.ExitStatus{Code: exit.Code, Signal: exit.Signal}
}

// lastLines are as many of the newest lines as there is room for.
func lastLines(lines []string) string {
	from, room := len(lines), maxErrorOutput+len("\n")
	for from > 0 && room >= len(lines[from-1])+len("\n") {
		from--
		room -= len(lines[from]) + len("\n")
	}
	if from == len(lines) && from > 0 { // not even the last line fits: its beginning tells most
		return spelling.Cut(lines[from-1], maxErrorOutput)
	}
	return strings.Join(lines[from:], "\n")
}

// endText says how an engine ended, and whether a lack of memory was the cause.
func endText(exit *bursarv1.ExitStatus, lack contain.Lack) string {
	if lack.Killed {
		return "killed for lack of memory" + lack.Words
	}
	if exit.GetSignal() == 0 && exit.Code == nil { //nolint:protogetter // nil says that it is not known
		exit = nil
	}
	return ExitText(exit) + lack.Words
}

// ExitText says how an engine's process ended, as the reason of its end does.
func ExitText(exit *bursarv1.ExitStatus) string {
	switch signal := exit.GetSignal(); {
	case signal != 0:
		return "killed by " + endreason.Signal(signal)
	case exit == nil:
		return tracker.ProcessEnded
	default:
		return fmt.Sprintf("exit code %d", exit.GetCode())
	}
}
