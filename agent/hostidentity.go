package agent

import (
	"fmt"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

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

// readToken reads the identity token that the last agent of this state directory has got. Without
// it the coordinator compares only the places in which the agents run.
func (a *Agent) readToken() {
	token, err := a.dir.Token()
	if err != nil {
		a.log.Warn("the identity token of the state directory cannot be read: the coordinator knows this host only by its boot and place", "error", err)
	}
	a.token = token
}

// storeToken keeps the identity token of a registration for the next one. An agent that cannot
// store it goes on: it shows the token as long as it runs.
func (a *Agent) storeToken(response *bursarv1.RegisterResponse) {
	token := response.GetIdentityToken()
	if len(token) == 0 {
		return // an older coordinator
	}
	a.token = token
	a.saving.Lock()
	defer a.saving.Unlock()
	if err := a.dir.SetToken(token); err != nil {
		a.log.Warn("the identity token of the state directory cannot be stored: after a restart the coordinator may take this agent for one on a copy of the directory, "+
			"until it has not heard of the host for a while", "error", err)
	}
}
