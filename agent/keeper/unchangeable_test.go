package keeper_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/keeper"
)

// A host that lists programs names them by their paths. So a path at which the engine's account can
// put another program is refused before anything runs.
func TestAProgramThatItsAccountCanChangeIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("not root: the programs of the test belong to the account of the engine")
	}
	its := folder(t)                          // of the account
	others, err := os.MkdirTemp("", "others") //nolint:usetesting // t.TempDir is for its owner alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(others) })
	open := filepath.Join(others, "open")
	must(t, os.Chmod(others, 0o755), os.Mkdir(open, 0o755), os.Chmod(open, 0o777))
	write := func(dir, name, content string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		must(t, os.WriteFile(file, []byte(content), 0o755), os.Chmod(file, mode))
		return file
	}
	link := func(dir, name, target string) string {
		file := filepath.Join(dir, name)
		must(t, os.Symlink(target, file))
		return file
	}
	const script = "#!/bin/sh\n:\n"
	inIts := write(its, "program", script, 0o755)
	for name, c := range map[string]struct {
		program string
		say     string
	}{
		"a file in its folder":              {inIts, its},
		"a link in its folder":              {link(its, "link", "/bin/sh"), its},
		"a link of another to its folder":   {link(others, "into", inIts), its},
		"a relative link of another":        {link(others, "relative", "../"+filepath.Base(its)+"/program"), its},
		"a link of another to its link":     {link(others, "twice", filepath.Join(its, "link")), its},
		"a file that all may write to":      {write(others, "writable", script, 0o777), others},
		"a file in a folder that all may":   {write(open, "program", script, 0o755), others},
		"an interpreter in its folder":      {write(others, "script", "#!"+inIts+"\n", 0o755), its},
		"an interpreter's interpreter":      {write(others, "nested", "#! "+write(others, "inner", "#!"+inIts+" -x\n", 0o755)+"\n", 0o755), its},
		"an interpreter without a folder":   {write(others, "anywhere", "#!bin/sh\n", 0o755), "bin/sh"},
		"a file of the working directory":   {"/proc/self/cwd/bin/sh", "/proc"},
		"a program that is not there":       {"/no/such", "no such file"},
		"a link to one that is not there":   {link(others, "dangling", filepath.Join(open, "later")), others},
		"a link that leads to itself":       {link(others, "loop", filepath.Join(others, "loop")), others},
		"a folder in its folder, by ..":     {others + "/open/../../" + filepath.Base(its) + "/program", others},
		"an interpreter that is not there":  {write(others, "orphan", "#!"+open+"/later\n", 0o755), others},
		"a name that is looked for in PATH": {"program", its},
	} {
		t.Run(name, func(t *testing.T) {
			spec := shell(t, "exit 0")
			spec.Unchangeable, spec.Command = true, []string{c.program}
			spec.Environment = []string{"PATH=" + its}
			s := begin(t, spec).started
			if s.Field != keeper.FieldCommand || s.Want == "" || s.PID != 0 {
				t.Fatalf("%+v", s)
			}
			if os.Geteuid() == 0 && c.say != "/proc" && !strings.Contains(s.Value+s.Error, c.say) {
				t.Errorf("%+v; want it to name %s", s, c.say)
			}
		})
	}
	for name, program := range map[string]string{"a file of root": "/bin/sh", "a link of root": "/usr/bin/awk"} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(program); err != nil {
				program = "/bin/sh"
			}
			spec := shell(t, "exit 0")
			spec.Unchangeable, spec.Command[0] = true, program
			if s := begin(t, spec).started; s.Error != "" {
				t.Errorf("%+v", s)
			}
		})
	}
	t.Run("a command that looks whether it is ready", func(t *testing.T) {
		spec := shell(t, "exit 0")
		spec.Unchangeable = true
		spec.Look = &keeper.Look{Command: []string{inIts}, Within: time.Minute, Interval: time.Second, Limit: time.Second}
		if s := begin(t, spec).started; s.Field != "ready.command.command[0]" || s.PID != 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("a script of the caller", func(t *testing.T) {
		spec := shell(t, "exit 0")
		spec.Unchangeable, spec.Script = true, []byte(script)
		if s := begin(t, spec).started; s.Field != keeper.FieldScript || s.PID != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}
