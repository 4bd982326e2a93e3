package keeper_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A person who finds the program and tries it hears what it is, and no line of its protocol.
func TestAPersonHearsWhatTheKeeperIs(t *testing.T) {
	for args, code := range map[string]int{"--help": 0, "-h": 0, "help": 0, "": 64, "--version": 64, "--help x": 64, "-": 64} {
		var out, errs strings.Builder
		cmd := exec.CommandContext(t.Context(), program, strings.Fields(args)...)
		cmd.Stdout, cmd.Stderr = &out, &errs // its input is /dev/null
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("%q: exit code %d, want %d", args, got, code)
		}
		said, other := out.String(), errs.String()
		if code != 0 {
			said, other = other, said
		}
		if !strings.Contains(said, "The Bursar agent starts it, never a person") || strings.Contains(said, "{") || other != "" {
			t.Errorf("%q: %q and %q", args, said, other)
		}
	}
}
