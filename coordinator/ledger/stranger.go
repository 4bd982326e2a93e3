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
}

func (e *StrangerError) Error() string {
	return fmt.Sprintf("host %s has another agent, and this one is %s: want a hostId of its own (hostId in agent.yaml, or BURSAR_AGENT_HOST_ID), "+
		"or the other one silent until its engines are given up", e.Host, e.What)
}

// checkAgent refuses an agent that is not the agent of this host. The error is a *StrangerError.
func (l *Ledger) checkAgent(h *host, c *RegisterCommand) error {
	boot, machine, namespace := validText(c.BootID), validText(c.MachineID), validText(c.PIDNamespace)
	sameBoot, sameMachine := boot == h.BootID, h.MachineID == "" || machine == h.MachineID
	silent := h.lastSync.Add(time.Duration(l.cfg.SuspectAfter)*l.Interval()) <= l.now
	var what string
	switch {
	case namespace == "" || h.PIDNamespace == "":
		// an agent of an older version does not say where it runs
		return nil
	case sameBoot && namespace == h.PIDNamespace: // it sees the processes that the known agent sees
		return nil
	case h.state == LostHost || silent && !h.tracksAny():
		// no engine is left that it would have to see
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
	h.stranger = stranger{l.now, what}
	return &StrangerError{h.ID, what}
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
