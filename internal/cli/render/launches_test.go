package render

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestAnAllocationSaysWhetherItsEngineIsReady(t *testing.T) {
	now := time.Now()
	at := timestamppb.New(now.Add(-5 * time.Second))
	ago := Ago(at, now)
	for want, a := range map[string]*bursarv1.Allocation{
		"":                                {},
		"not yet: starting, " + ago:       {Phase: bursarv1.Phase_PHASE_STARTING, PhaseTime: at},
		"no: ended before, " + ago:        {Phase: bursarv1.Phase_PHASE_STARTING, PhaseTime: at, EndTime: at},
		"yes, " + ago:                     {Phase: bursarv1.Phase_PHASE_READY, PhaseTime: at},
		"no: failed, " + ago + ": port 1": {Phase: bursarv1.Phase_PHASE_FAILED, PhaseTime: at, PhaseReason: "port 1"},
		"yes":                             {Phase: bursarv1.Phase_PHASE_READY},
		"9":                               {Phase: 9},
	} {
		if got := readyText(a, now); got != want {
			t.Errorf("%v: %q, want %q", a, got, want)
		}
	}
}

func TestEachTryIsNamedWithItsLastOutput(t *testing.T) {
	facts := tryFacts(&bursarv1.Launch{Retries: 2, Tries: []*bursarv1.LaunchTry{
		{HostId: "h1", Reason: "no such program", Time: timestamppb.Now()},
		{HostId: "h2", Reason: "not ready", Executed: true, ErrorOutput: "one\ntwo", Time: timestamppb.Now()},
	}})
	text := strings.Join(facts, "|")
	for _, want := range []string{"try 1 failed|on host h1, ", "no such program (nothing was executed)", "try 2 failed|on host h2, ", "not ready (it may have run)||one||two", "retries|2"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %q", want, text)
		}
	}
	if facts := tryFacts(nil); len(facts) != 0 {
		t.Errorf("without a launch: %q", facts)
	}
}

func TestTheListHasNamesAndPhasesIfThereAreAny(t *testing.T) {
	header, rows := allocationTable(false, time.Now(), []*bursarv1.Allocation{{Id: "a", Name: "sweep", Phase: bursarv1.Phase_PHASE_READY}, {Id: "b"}})
	name, phase := slices.Index(header, "NAME"), slices.Index(header, "PHASE")
	if name != 1 || phase < 0 || rows[0][name] != "sweep" || rows[0][phase] != "ready" || rows[1][name] != "" || rows[1][phase] != "" {
		t.Errorf("%q: %q", header, rows)
	}
}
