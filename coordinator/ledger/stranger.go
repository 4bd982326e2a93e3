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
	silent := h.lastSync.Add(time.Duration(l.cfg.SuspectAfter)*l.Interval()) <= l.now
	proof := h.proofOf(c.Token)
	if proof == provenOther && h.heard && !silent && !h.Left && h.state != LostHost && !h.isKnownRun(c) {
		h.stranger = stranger{l.now, "on a copy of the state directory, whose identity token was replaced since, and the other one reports"}
		return &StrangerError{h.ID, h.stranger.what, wantNoCopy}
	}
	if h.isSeenBy(c) || l.replaces(h, c, proof, silent) {
		return nil
	}
	what, want := h.differenceOf(c), wantSilence
	if proof == proven && !h.Left && !l.isQuiet(h) {
		what += ", with the host's identity token, and the other one has reported just now"
		want = wantMissed
	}
	h.stranger = stranger{l.now, what}
	return &StrangerError{h.ID, what, want}
}

// isSeenBy reports whether an agent sees the processes that the known agent sees. It is taken to if
// one of both is of an older version and does not say where it runs.
func (h *host) isSeenBy(c *RegisterCommand) bool {
	namespace := validText(c.PIDNamespace)
	return namespace == "" || h.PIDNamespace == "" || h.isSameBoot(c) && namespace == h.PIDNamespace
}

// replaces reports whether an agent that sees other processes may be the agent of the host from now
// on: no engine is left that it would have to see, or the place of the known agent has ended.
func (l *Ledger) replaces(h *host, c *RegisterCommand, proof proof, silent bool) bool {
	sameBoot := h.isSameBoot(c)
	switch {
	case h.state == LostHost || silent && !h.tracksAny():
		// no engine is left that it would have to see
		return true
	case proof == proven && (h.Left || l.isQuiet(h)) && (!sameBoot || h.PIDNamespace != initialPIDs || !h.tracksAny()):
		// the state directory has moved with its host, and the known place has ended
		return true
	}
	// else everything that ran must have ended with the known boot
	return h.isSameMachine(c) && !sameBoot && l.outlived(h, c.Uptime, silent)
}

// differenceOf says how an agent that sees other processes differs from the known one.
func (h *host) differenceOf(c *RegisterCommand) string {
	switch {
	case h.isSameBoot(c):
		return "in another pid namespace, " + validText(c.PIDNamespace)
	case h.isSameMachine(c):
		return "of another boot, " + validText(c.BootID) + ", that was up while the known one was"
	}
	// its boot says nothing about the known machine
	return "on another machine, " + cmp.Or(validText(c.MachineID), "which has no id")
}

// isSameBoot reports whether an agent runs in the known boot.
func (h *host) isSameBoot(c *RegisterCommand) bool { return validText(c.BootID) == h.BootID }

// isSameMachine reports whether an agent runs on the known machine, as far as that is known.
func (h *host) isSameMachine(c *RegisterCommand) bool {
	return h.MachineID == "" || validText(c.MachineID) == h.MachineID
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
