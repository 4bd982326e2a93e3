package render

import (
	"fmt"
	"strings"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Phase is "ready" for PHASE_READY.
func Phase(p bursarv1.Phase) string {
	if p == bursarv1.Phase_PHASE_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(p.String(), "PHASE_"))
}

// readyText says whether an engine is ready, since when, and why not.
func readyText(a *bursarv1.Allocation, now time.Time) string {
	var text string
	switch a.GetPhase() {
	case bursarv1.Phase_PHASE_UNSPECIFIED:
		return ""
	case bursarv1.Phase_PHASE_STARTING:
		text = "not yet: starting"
		if HasEnded(a) {
			text = "no: ended before"
		}
	case bursarv1.Phase_PHASE_READY:
		text = "yes"
	case bursarv1.Phase_PHASE_FAILED:
		text = "no: failed"
	default:
		text = Phase(a.GetPhase()) // of a later version
	}
	if a.GetPhaseTime() != nil {
		text += ", " + Ago(a.GetPhaseTime(), now)
	}
	if a.GetPhaseReason() != "" {
		text += ": " + a.GetPhaseReason()
	}
	return text
}

// outputText says where the output of a launched engine is.
func outputText(a *bursarv1.Allocation) string {
	folder := a.GetLaunch().GetLogDirectory()
	if folder == "" {
		return ""
	}
	return fmt.Sprintf("%s on host %s; bursar logs %s", folder, a.GetHostId(), a.GetId())
}

// programText names the program of a launch and its account.
func programText(l *bursarv1.Launch) string {
	if l == nil {
		return ""
	}
	text := l.GetProgram()
	if l.GetAccount() != "" {
		text += " as " + l.GetAccount()
	}
	return text
}

// TriedAgainText says that the engine of an allocation was tried again, as another one.
func TriedAgainText(id string, last *bursarv1.Allocation) string {
	text := "the engine of allocation " + id + " was tried again as " + last.GetId()
	if last.GetHostId() != "" {
		text += " on host " + last.GetHostId()
	}
	return text
}

// SayTriedAgain says on stderr that an answer is about another try than the one of the id that was
// asked for. It says nothing if it is not.
func SayTriedAgain(out *Printer, id string, last *bursarv1.Allocation) {
	if last.GetId() != "" && last.GetId() != id {
		out.Sayf("bursar: %s", TriedAgainText(id, last))
	}
}

// tryFacts lists the tries that failed, with the last output of each.
func tryFacts(l *bursarv1.Launch) (facts []string) {
	for i, try := range l.GetTries() {
		began := "nothing was executed"
		if try.GetExecuted() {
			began = "it may have run"
		}
		text := fmt.Sprintf("on host %s, %s: %s (%s)", try.GetHostId(), TimeText(try.GetTime()), try.GetReason(), began)
		facts = append(facts, fmt.Sprintf("try %d failed", i+1), text)
		for line := range strings.SplitSeq(try.GetErrorOutput(), "\n") {
			if line != "" {
				facts = append(facts, "", line)
			}
		}
	}
	if l.GetSuccessorId() != "" {
		facts = append(facts, "tried again as", l.GetSuccessorId())
	}
	if l.GetRetries() > 0 {
		facts = append(facts, "retries", fmt.Sprintf("%d", l.GetRetries()))
	}
	return facts
}
