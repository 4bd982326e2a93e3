package keeper_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/agent/keeper"
)

func TestWhatCannotBeStartedIsNamed(t *testing.T) {
	dir := folder(t)
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "echo hello\n", 0o644)
	headless := write("headless", "echo hello\n", 0o755)
	orphan := write("orphan", "#!/no/such/interpreter\n", 0o755)
	locked := filepath.Join(dir, "locked")
	if err := os.Mkdir(locked, 0o700); err != nil {
		t.Fatal(err)
	}
	many := strings.Repeat("x", 1<<17-1)
	for name, test := range map[string]struct {
		change            func(*keeper.Spec)
		field, value, say string
	}{
		"a program that is not there": {func(s *keeper.Spec) { s.Command[0] = "/no/such" }, keeper.FieldCommand, "/no/such", "no such file"},
		"a name that is not in PATH":  {func(s *keeper.Spec) { s.Command[0] = "no-such" }, keeper.FieldCommand, "no-such", "not in PATH"},
		"a name in an empty PATH":     {func(s *keeper.Spec) { s.Command[0], s.Environment = "sh", []string{"PATH="} }, keeper.FieldCommand, "sh", "not in PATH"},
		"a PATH that is relative": {
			func(s *keeper.Spec) {
				s.Command[0], s.WorkingDirectory, s.Environment = "sh", "/bin", []string{"PATH=.::"}
			},
			keeper.FieldCommand, "sh", "not in PATH",
		},
		"a relative path":             {func(s *keeper.Spec) { s.Command[0], s.WorkingDirectory = "bin/sh", "/" }, keeper.FieldCommand, "bin/sh", "relative"},
		"a file that is no program":   {func(s *keeper.Spec) { s.Command[0] = plain }, keeper.FieldCommand, plain, "permission denied"},
		"a script without a shell":    {func(s *keeper.Spec) { s.Command[0] = headless }, keeper.FieldCommand, headless, "exec format"},
		"an interpreter that is gone": {func(s *keeper.Spec) { s.Command[0] = orphan }, keeper.FieldCommand, orphan, "no such file"},
		"a folder":                    {func(s *keeper.Spec) { s.Command[0] = "/usr" }, keeper.FieldCommand, "/usr", "permission denied"},
		"a path below a file":         {func(s *keeper.Spec) { s.Command[0] = plain + "/x" }, keeper.FieldCommand, plain + "/x", "not a directory"},
		"too many arguments": {
			func(s *keeper.Spec) {
				for range 60 {
					s.Command = append(s.Command, many)
				}
			},
			"command", "/bin/sh", "argument list too long",
		},
		"no working directory":         {func(s *keeper.Spec) { s.WorkingDirectory = "/no/such" }, keeper.FieldDirectory, "/no/such", "no such file"},
		"a file for working directory": {func(s *keeper.Spec) { s.WorkingDirectory = plain }, keeper.FieldDirectory, plain, "not a directory"},
		"no log directory":             {func(s *keeper.Spec) { s.Log.Directory = "/no/such" }, keeper.FieldLogs, "/no/such", "no such file"},
		"a file for log directory":     {func(s *keeper.Spec) { s.Log.Directory = plain }, keeper.FieldLogs, plain, "not a directory"},
		"a log directory of others":    {func(s *keeper.Spec) { s.Log.Directory = "/proc" }, keeper.FieldLogs, "/proc", ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := shell(t, "exit 0")
			test.change(&spec)
			k := begin(t, spec)
			s := k.started
			if s.Field != test.field || s.Value != test.value || s.Want == "" || !strings.Contains(s.Error, test.say) || s.PID != 0 {
				t.Errorf("%+v", s)
			}
			fault := keeper.NoFault
			switch {
			case s.Field != keeper.FieldCommand:
			case strings.Contains(s.Error, "no such file"), strings.Contains(s.Error, "PATH"), strings.Contains(s.Error, "relative"):
				fault = keeper.NotFound
			default:
				fault = keeper.NotExecutable
			}
			if s.Fault() != fault {
				t.Errorf("fault %d, want %d: %+v", s.Fault(), fault, s)
			}
			if err := k.cmd.Wait(); k.cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("the keeper: %v", err)
			}
			if content, err := os.ReadFile(k.record); err != nil || len(content) > 0 {
				t.Errorf("record %q, %v", content, err)
			}
		})
	}
}

// What root may, its engines' users may not: the keeper is not root.
func TestUsersRightsAreWhatCounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("want root, to be somebody else than the engine's user")
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(closed, "program")
	if err := os.WriteFile(secret, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*keeper.Spec){
		keeper.FieldCommand:   func(s *keeper.Spec) { s.Command[0] = secret },
		keeper.FieldDirectory: func(s *keeper.Spec) { s.WorkingDirectory = closed },
		keeper.FieldLogs:      func(s *keeper.Spec) { s.Log.Directory = closed },
	} {
		spec := shell(t, "exit 0")
		change(&spec)
		k := begin(t, spec)
		if k.started.Field != field || !strings.Contains(k.started.Error, "permission denied") {
			t.Errorf("%s: %+v", field, k.started)
		}
		if files, err := os.ReadDir(closed); err != nil || len(files) != 1 {
			t.Errorf("%s: %v, %v", field, files, err)
		}
	}
}

func TestProgramsAreLookedForInTheirOwnPath(t *testing.T) {
	dir := folder(t)
	for name, text := range map[string]string{"first": "first", "second": "second"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "engine"), []byte("#!/bin/sh\necho "+text+" $0 $1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "first", "engine"), 0o644); err != nil {
		// a file that is no program hides none
		t.Fatal(err)
	}
	spec := shell(t, "")
	spec.Command = []string{"engine", "$HOME; `id`"}
	spec.Environment = []string{fmt.Sprintf("PATH=/no/such:%s/first:%s/second:/bin", dir, dir)}
	run(t, spec).end()
	if got, want := said(t, spec, "stdout"), "second "+dir+"/second/engine $HOME; `id`\n"; got != want {
		t.Errorf("%q: want %q", got, want)
	}
}
