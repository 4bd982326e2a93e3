package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/bursar/bursar/agent/engine"
	"github.com/bursar/bursar/providers/host"
)

// sightEvery is how often the agent looks whether it can see the machine's processes: the process
// table can be mounted in another way at any time.
const sightEvery = time.Minute

// sight says which of the machine's processes the agent cannot see. It belongs to the measuring
// loop.
type sight struct {
	at     time.Time
	blind  string // why it cannot see all; empty: it can
	hidden int    // engines that it could not see when it last measured
}

// blindNote describes in a sentence the effect of processes that the agent cannot see; empty if it
// sees all.
func blindNote(why string) string {
	if why == "" {
		return ""
	}
	return "its agent cannot see the processes of other users: " + why +
		"; it notices the end of their engines, but measures and stops none of them: run the agent as root, or mount /proc without hidepid"
}

// Notes returns notes for the operator before an agent starts with this configuration here, a
// sentence each.
func (c Config) Notes() (notes []string) {
	s, err := c.resolve()
	if err != nil {
		return nil // Check has said it
	}
	if note := s.heldNote(); note != "" {
		notes = append(notes, note)
	}
	notes = append(append(notes, s.policyNotes()...), s.Engines.Remote.notes()...)
	meter, err := host.NewMeter(s.meterOptions())
	if err != nil {
		return notes
	}
	if note := blindNote(meter.Blind()); note != "" {
		notes = append(notes, note)
	}
	return notes
}

// notes returns notes for the operator about the host, which the coordinator shows. It logs new
// notes. Only the measuring loop calls it.
func (a *Agent) notes(now time.Time, usages []host.Usage) (notes []string) {
	if note := a.settings().heldNote(); note != "" {
		notes = append(notes, note)
	}
	notes = append(notes, a.settings().policyNotes()...)
	hidden := 0
	for i := range usages {
		if errors.Is(usages[i].Err, host.ErrHidden) {
			hidden++
		}
	}
	if hidden != a.sight.hidden {
		a.sight.at = time.Time{} // the process table was mounted in another way
		if hidden > 0 {
			a.log.Warn("processes of engines are there and cannot be seen: they count as running, and nothing is known of what they use", "engines", hidden)
		}
	}
	a.sight.hidden = hidden
	a.look(now)
	if note := blindNote(a.sight.blind); note != "" {
		notes = append(notes, note)
	}
	if hidden > 0 {
		notes = append(notes, fmt.Sprintf("%d of its engines cannot be seen: what they use is not known", hidden))
	}
	return notes
}

// blind says why the agent does not see the processes of other users; "": it does.
func (a *Agent) blind() string {
	if meter, knows := a.deps.Meter.(engine.Blinder); knows {
		return meter.Blind()
	}
	return ""
}

// look finds out every sightEvery whether the agent sees all processes.
func (a *Agent) look(now time.Time) {
	meter, knows := a.deps.Meter.(engine.Blinder)
	if !knows || !a.sight.at.IsZero() && now.Sub(a.sight.at) < sightEvery {
		return
	}
	a.sight.at = now
	blind := meter.Blind()
	switch blind {
	case a.sight.blind:
	case "":
		a.log.Info("the agent sees the processes of all users again")
	default:
		a.log.Warn(blindNote(blind))
	}
	a.sight.blind = blind
}
