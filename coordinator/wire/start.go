package wire

import (
	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// PhaseFrom converts the phase of an engine. A phase of a later version is unknown.
func PhaseFrom(p bursarv1.Phase) ledger.Phase {
	if _, known := bursarv1.Phase_name[int32(p)]; !known {
		return ledger.PhaseUnknown
	}
	return ledger.Phase(p) //nolint:gosec // a test checks that the numbers are equal
}

// FaultFrom converts the fault of a program. A fault of a later version is unknown.
func FaultFrom(f bursarv1.LaunchFault) ledger.Fault {
	if _, known := bursarv1.LaunchFault_name[int32(f)]; !known {
		return ledger.FaultUnknown
	}
	return ledger.Fault(f) //nolint:gosec // a test checks that the numbers are equal
}

// startMessage adds the start of an engine to an allocation.
func startMessage(m *bursarv1.Allocation, s *ledger.Start) {
	if s == nil {
		return
	}
	m.Name = s.Name
	if s.Phase != ledger.PhaseUnknown {
		m.Phase, m.PhaseTime, m.PhaseReason = bursarv1.Phase(s.Phase), TimeMessage(s.PhaseSince), s.PhaseReason
	}
	launch := s.Launch
	if launch == nil {
		return
	}
	m.Launch = &bursarv1.Launch{Account: launch.Account, Program: launch.Program, LogDirectory: launch.LogDirectory, Retries: launch.Retries}
	if launch.Successor != 0 {
		m.Launch.SuccessorId = launch.Successor.String()
	}
	for i := range launch.Tries {
		t := &launch.Tries[i]
		m.Launch.Tries = append(m.Launch.Tries, &bursarv1.LaunchTry{
			HostId: t.HostID, Time: TimeMessage(t.At), Reason: t.Reason, Executed: t.Executed, ErrorOutput: t.ErrorOutput, Fault: bursarv1.LaunchFault(t.Fault),
		})
	}
}

// startFrom converts the start in an agent's record. Records do not contain the commands of
// launches.
func startFrom(m *bursarv1.Allocation) *ledger.Start {
	s := &ledger.Start{
		Name: CleanText(m.GetName()), Phase: PhaseFrom(m.GetPhase()), PhaseSince: instantFrom(m.GetPhaseTime()),
		PhaseReason: truncated(CleanText(m.GetPhaseReason()), longestProblem),
	}
	if launch := m.GetLaunch(); launch != nil {
		s.Launch = &ledger.Launch{
			Account: CleanText(launch.GetAccount()), Program: CleanText(launch.GetProgram()), LogDirectory: CleanText(launch.GetLogDirectory()),
		}
	}
	if s.Name == "" && s.Phase == ledger.PhaseUnknown && s.Launch == nil {
		return nil
	}
	return s
}
