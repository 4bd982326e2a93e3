package agent

import (
	"errors"
	"strings"
	"testing"
)

func TestSettingsForEnginesFromElsewhereAreChecked(t *testing.T) {
	for field, remote := range map[string]RemoteConfig{
		"engines.remote.programs[0]":                         {Programs: []string{"/bin/../bin/true"}},
		"engines.remote.environment.allowed[0]":              {Environment: RemoteEnvironmentConfig{Allowed: []string{""}}},
		"engines.remote.environment.allowed[1]":              {Environment: RemoteEnvironmentConfig{Allowed: []string{"LC_*", "*_HOME"}}},
		"engines.remote.environment.allowed[2]":              {Environment: RemoteEnvironmentConfig{Allowed: []string{"*", "A", "A=B"}}},
		"engines.remote.environment.set":                     {Environment: RemoteEnvironmentConfig{Set: map[string]string{"A=B": "hunter2"}}},
		"engines.remote.environment.set ":                    {Environment: RemoteEnvironmentConfig{Set: map[string]string{"": "hunter2"}}},
		"engines.remote.environment.set  ":                   {Environment: RemoteEnvironmentConfig{Set: map[string]string{"BURSAR_ALLOCATION_ID": "hunter2"}}},
		"engines.remote.environment.set   ":                  {Environment: RemoteEnvironmentConfig{Set: map[string]string{"BURSAR_LABEL_user": "hunter2"}}},
		"engines.remote.environment.set.SPARK_HOME":          {Environment: RemoteEnvironmentConfig{Set: map[string]string{"SPARK_HOME": "hunter2\x00"}}},
		"engines.remote.environment.set.SPARK_HOME         ": {Environment: RemoteEnvironmentConfig{Set: map[string]string{"SPARK_HOME": strings.Repeat("hunter2", 20000)}}},
	} {
		config := Config{HostID: "h1"}
		config.Engines.Remote = remote
		err := config.Validate()
		wrong, ok := errors.AsType[*ConfigError](err)
		if !ok || wrong.Field != strings.TrimSpace(field) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %s", err, field)
		}
	}
	right := Config{HostID: "h1"}
	right.Engines.Remote.Environment = RemoteEnvironmentConfig{Allowed: []string{"*", "LC_*", "SPARK_HOME"}, Set: map[string]string{"PATH": "/opt/bin:/bin", "EMPTY": ""}}
	if err := right.Validate(); err != nil {
		t.Error(err)
	}
}

// A list with a program that executes its arguments restricts nothing, and the operator hears so.
func TestAListOfProgramsWithAnInterpreterIsNoted(t *testing.T) {
	config := Config{HostID: "h1"}
	config.Engines.Remote.Programs = []string{"/opt/etl/run", "/usr/bin/python3.12", "/bin/bash", "/usr/bin/env", "/usr/bin/pythonic"}
	got := config.Engines.Remote.notes()
	if len(got) != 3 || !strings.Contains(got[0], "engines.remote.programs[1]: /usr/bin/python3.12 executes what its arguments say") {
		t.Errorf("%q", got)
	}
	if !strings.Contains(strings.Join(config.Notes(), "\n"), got[0]) {
		t.Errorf("%q", config.Notes())
	}
}
