package agent

import (
	"errors"
	"testing"
)

func TestAccountsOfEnginesAreChecked(t *testing.T) {
	for field, engines := range map[string]EnginesConfig{
		"engines.minUserId":      {MinUserID: -1},
		"engines.systemUsers[1]": {SystemUsers: []string{"a", ""}},
		"engines.bannedUsers[0]": {BannedUsers: []string{""}},
	} {
		wrong, ok := errors.AsType[*ConfigError](Config{HostID: "h1", Engines: engines}.Validate())
		if !ok || wrong.Field != field {
			t.Errorf("%v, want %s", wrong, field)
		}
	}
}
