package ledger

import (
	"cmp"
	"fmt"
	"time"
)

// stranger is an agent that reported for the host of another agent.
type stranger struct {
	at   Instant // when it last did; zero: never
	what string
}

// StrangerError refuses an agent that uses the id of a host whose known agent sees other
// processes. Otherwise engines would be released because of an agent that cannot see them.
type StrangerError struct {
	Host string
	What string // how it differs
	Want string // what must be before it is taken
}

func (e *StrangerError) Error() string {
	return fmt.Sprintf("host %s has another agent, and this one is %s: want %s", e.Host, e.What, e.Want)
}

// initialPIDs is the pid namespace of every machine's own, which ends with the boot alone: an agent
// in a container does not see the engines there, and they have not ended.
const initialPIDs = "4026531836"

const (
	wantOwnID = "a hostId of its own (hostId in agent.yaml, or BURSAR_AGENT_HOST_ID)"
	// wantSilence is for an agent that nothing proves to be the host's.
	wantSilence = wantOwnID + ", or the other one silent until its engines are given up"
	// wantMissed is for an agent with the host's identity token.
	wantMissed = "the other one to miss a report, which it does soon if it has ended; or " + wantOwnID + " and an empty stateDir"
	// wantNoCopy is for an agent with another identity token.
	wantNoCopy = wantOwnID + " and an empty stateDir, or the other one silent"
)

// checkAgent refuses an agent that is not the agent of this host. The error is a *StrangerError.
func (l *Ledger) checkAgent(h *host, c *RegisterCommand) error {
	boot, machine, namespace := validText(c.BootID), validText(c.MachineID), validText(c.PIDNamespace)
	sameBoot, sameMachine := boot == h.BootID, h.MachineID == "" || machine == h.MachineID
	silent := h.lastSync.Add(time.Duration(l.cfg.SuspectAfter)*l.Interval()) <= l.now
	proof := h.proofOf(c.Token)
	var what string
	switch {
	case proof == provenOther && h.heard && !silent && !h.Left && h.state != LostHost && !h.isSameRun(c):
		h.stranger = stranger{l.now, "on a copy of the state directory, whose identity token was replaced since, and the other one reports"}
		return &StrangerError{h.ID, h.stranger.what, wantNoCopy}
	case namespace == "" || h.PIDNamespace == "":
		// an agent of an older version does not say where it runs
		return nil
	case sameBoot && namespace == h.PIDNamespace: // it sees the processes that the known agent sees
		return nil
	case h.state == LostHost || silent && !h.tracksAny():
		// no engine is left that it would have to see
		return nil
	case proof == proven && (h.Left || l.isQuiet(h)) && (!sameBoot || h.PIDNamespace != initialPIDs || !h.tracksAny()):
		// the state directory has moved with its host, and the known place has ended
		return nil
	case sameMachine && !sameBoot && l.outlived(h, c.Uptime, silent):
		// everything that ran has ended with the known boot
		return nil
	case sameBoot:
		what = "in another pid namespace, " + namespace
	case sameMachine:
		what = "of another boot, " + boot + ", that was up while the known one was"
	default: // its boot says nothing about the known machine
		what = "on another machine, " + cmp.Or(machine, "which has no id")
	}
	want := wantSilence
	if proof == proven && !h.Left && !l.isQuiet(h) {
		what += ", with the host's identity token, and the other one has reported just now"
		want = wantMissed
	}
	h.stranger = stranger{l.now, what}
	return &StrangerError{h.ID, what, want}
}

// outlived reports whether another boot of a host's machine, which has been up for uptime, began
// after the known boot was last heard of. If no report has come since a load, that time is
// unknown. Then it is enough that the known agent is silent.
func (l *Ledger) outlived(h *host, uptime time.Duration, silent bool) bool {
	if !h.heard {
		return silent
	}
	return l.now-min(l.now, Instant(max(0, uptime))) > h.lastSync
}

// tracksAny reports whether the ledger has engines with a process on the host.
func (h *host) tracksAny() bool {
	for _, e := range h.entries {
		if e.tracked() {
			return true
		}
	}
	return false
}
