package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/agent"
)

// Who owns the folder of a root agent's socket can put a socket of theirs in its place, and get
// what others send; who owns the folder of logs can put a link there. A check says so, too.
func TestFoldersThatOthersCanChangeAreRefusedByRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
	another := func(path string) error { return os.Chown(path, nobody, nobody) }
	for name, test := range map[string]struct {
		spoil func(path string) error
		want  string
	}{
		"another's":        {another, "owned by uid 65534"},
		"all's":            {func(path string) error { return os.Chmod(path, 0o777) }, "nobody else may write"},
		"a group's":        {func(path string) error { return errors.Join(os.Chown(path, 0, nobody), os.Chmod(path, 0o770)) }, "nobody else may write"},
		"all's and sticky": {func(path string) error { return os.Chmod(path, 0o777|os.ModeSticky) }, "nobody else may write"},
		"in another's":     {func(path string) error { return another(filepath.Dir(path)) }, "on the way"},
	} {
		for field, set := range map[string]func(c *agent.Config, folder string){
			"socket":         func(c *agent.Config, folder string) { c.Socket = filepath.Join(folder, "agent.sock") },
			"engines.logDir": func(c *agent.Config, folder string) { c.Engines.LogDir = folder },
		} {
			if field == "socket" && name == "all's and sticky" {
				continue // no user can remove what is another's
			}
			t.Run(name+" "+field, func(t *testing.T) {
				s := newSubject(t)
				path := filepath.Join(filepath.Dir(s.config.StateDir), "above", "folder")
				if err := os.MkdirAll(path, 0o755); err != nil {
					t.Fatal(err)
				}
				set(&s.config, path)
				if err := s.config.Check(); err != nil {
					t.Error("as it should be:", err)
				}
				if err := test.spoil(path); err != nil {
					t.Fatal(err)
				}
				for when, err := range map[string]error{"check": s.config.Check(), "start": s.runError()} {
					wrong, is := errors.AsType[*agent.ConfigError](err)
					if !is || wrong.Field != field || !strings.Contains(wrong.Want, test.want) {
						t.Errorf("%s: %v", when, err)
					}
				}
			})
		}
	}
}
