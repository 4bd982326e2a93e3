package agent

import "fmt"

// held returns the settings with the host id of the state file, if they have no id of their own. A
// machine that gets another name stays the same host: its engines are booked under the id.
func (s settings) held(id string) settings {
	if s.machineName != "" && id != "" {
		s.HostID = id
	}
	return s
}

// heldNote says that the host keeps an id that is not the machine's name; empty: it does not.
func (s *settings) heldNote() string {
	if s.machineName == "" || s.machineName == s.HostID {
		return ""
	}
	return fmt.Sprintf("its machine is named %s now; the host keeps its id, %s, from the state file: set hostId in agent.yaml to make the id certain",
		s.machineName, s.HostID)
}

// sayHeld logs that the host keeps its id.
func (a *Agent) sayHeld() {
	if note := a.settings().heldNote(); note != "" {
		a.log.Warn(note, "host_id", a.settings().HostID)
	}
}
