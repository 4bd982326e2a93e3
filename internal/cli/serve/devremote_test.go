package serve

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/osuser"
)

// Dev starts engines for its own user. As root it starts none as root: those of the user of sudo,
// or of the accounts of its file.
func TestAsWhomDevStartsEngines(t *testing.T) {
	root := os.Geteuid() == 0
	own, err := osuser.Users{}.NameOf(t.Context(), uint32(os.Geteuid()))
	if err != nil {
		t.Fatal(err)
	}
	file := func(text string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "agent.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	withoutSudo, withSudo := []string{own}, []string{own}
	if root {
		withoutSudo, withSudo = nil, []string{"alice"}
	}
	for name, c := range map[string]struct {
		sudo, file string
		want       []string
		denied     bool // some groups are denied
	}{
		"alone":                {"", "", withoutSudo, withoutSudo == nil},
		"by sudo":              {"alice", "", withSudo, false},
		"by sudo of root":      {"root", "", withoutSudo, withoutSudo == nil},
		"a file":               {"alice", "engines: {remote: {accounts: [etl]}}\n", []string{"etl"}, true},
		"a file with none":     {"alice", "engines: {remote: {accounts: []}}\n", []string{}, true},
		"a file of the groups": {"alice", "engines: {remote: {deniedGroups: [wheel]}}\n", withSudo, true},
	} {
		t.Setenv("SUDO_USER", c.sudo)
		f := devFlags{dataDir: t.TempDir(), socket: filepath.Join(t.TempDir(), "agent.sock")}
		if c.file != "" {
			f.agentConfig = file(c.file)
		}
		config, _, err := devAgentConfig(t.Context(), f, "http://127.0.0.1:7070")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		config, err = config.WithDefaults()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, config.Engines.Remote.Accounts); diff != "" {
			t.Errorf("%s: accounts (-want +got):\n%s", name, diff)
		}
		if denied := len(config.Engines.Remote.DeniedGroups) > 0; denied != c.denied {
			t.Errorf("%s: denied groups: %v", name, config.Engines.Remote.DeniedGroups)
		}
	}
}
