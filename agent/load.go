package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/bursar/bursar/agent/statefile"
)

// load reads the state file. It sets aside one that is damaged, or of another host and boot.
func (a *Agent) load(dir State, bootID string) (statefile.State, error) {
	saved, err := dir.Load()
	var damaged *statefile.DamagedError
	switch {
	case errors.Is(err, statefile.ErrNone):
		return statefile.State{}, nil
	case errors.As(err, &damaged):
		aside, asideErr := dir.SetAside(time.Now())
		if asideErr != nil {
			return statefile.State{}, errors.Join(err, asideErr)
		}
		a.log.Error("the state file is damaged and was set aside: engines are taken over from what the coordinator knows", "error", err, "aside", aside)
		return statefile.State{}, nil
	case err != nil:
		return statefile.State{}, err
	}
	if held := a.settings().held(saved.HostID); held.HostID != a.settings().HostID {
		a.live.Store(&held) // the state directory was not there when the agent was made
	}
	switch {
	case saved.HostID == a.settings().HostID:
		if saved.CutOff > 0 {
			a.log.Warn("the last change of the state was not written in full and is left out: nobody was told that it is stored", "bytes", saved.CutOff)
		}
		return saved, nil
	case saved.BootID == bootID && len(saved.Engines) > 0:
		return statefile.State{}, &ConfigError{
			"hostId", a.settings().HostID,
			fmt.Sprintf("%q, under which %d engines of this boot were confirmed (state file %s); or another stateDir", saved.HostID, len(saved.Engines), dir.File()),
		}
	}
	aside, err := dir.SetAside(time.Now())
	if err != nil {
		return statefile.State{}, err
	}
	a.log.Warn("the state file is another host's and was set aside", "was", saved.HostID, "aside", aside)
	return statefile.State{}, nil
}
