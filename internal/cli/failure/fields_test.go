package failure

import (
	"os"
	"testing"

	"github.com/spf13/pflag"

	"github.com/bursar/bursar/internal/cli/render"
)

// What a host has found wrong is named as it was typed, with its value.
func TestFieldsOfAMessageAreNamedAsTheyAreTyped(t *testing.T) {
	r := NewReporter(render.NewPrinter(os.Stdout, os.Stderr))
	r.Flags = pflag.NewFlagSet("submit", pflag.ContinueOnError)
	for _, name := range []string{"dir", "account", "log-dir", "memory"} {
		r.Flags.String(name, "", "")
	}
	r.Flags.Int32("priority", 0, "")
	r.Flags.StringArray("need-variable", nil, "")
	r.Flags.StringArray("env", nil, "")
	if err := r.Flags.Parse([]string{"--dir", "/none", "--priority", "7", "--env", "A=hunter2"}); err != nil {
		t.Fatal(err)
	}
	for message, want := range map[string]string{
		"the engine did not start: allocation x is released; on host h1: working_directory: want a directory": `the engine did not start: allocation x is released; on host h1: --dir "/none": want a directory`,
		`not started; on host h1: required_variables[0]: "NOPE": is not set`:                                  `not started; on host h1: --need-variable "NOPE": is not set`,
		`on host h1: command[0]: "./x": is a relative path; on host h2: command[0]: "./x": is not there`:      `on host h1: COMMAND "./x": is a relative path; on host h2: COMMAND "./x": is not there`,
		"priority: want less":                      "--priority 7: want less",
		"on host h1: environment: want less":       "on host h1: environment: want less",
		"launch.environment[A]: want less":         "--env A: want less",
		`"a": working_directory: b`:                `"a": working_directory: b`,
		"resource.memory_bytes: want more":         "--memory: want more",
		"nothing of that":                          "nothing of that",
		"allocation x is waiting: account: a name": "allocation x is waiting: account: a name",
	} {
		if got := r.inTyped(message); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}
