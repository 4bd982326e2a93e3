package losses

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever happens to the state file while engines run, no engine is lost or ended, and each is
// counted once.
func TestStateFileIsDamaged(t *testing.T) {
	t.Parallel()
	p := startPlace(t, settings{})
	engines := p.three("")
	for _, test := range []struct {
		name  string
		spoil func(content []byte) []byte // nil: the file is gone
		aside bool
	}{
		{"is gone", func([]byte) []byte { return nil }, false},
		{"is empty", func([]byte) []byte { return []byte{} }, true},
		{"is cut off", func(c []byte) []byte { return c[:len(c)/2] }, true},
		{"is garbage", func([]byte) []byte { return bytes.Repeat([]byte{0xff, 0, '{'}, 4096) }, true},
		{"is zeros", func(c []byte) []byte { return make([]byte, len(c)) }, true},
		{"has a digit changed", func(c []byte) []byte {
			return bytes.Replace(c, []byte(`"epoch":"1"`), []byte(`"epoch":"9"`), 1)
		}, true},
	} {
		p.right(engines)
		ending := p.launched("ending " + test.name)
		p.right(append(engines, ending))
		p.agent.Kill()
		ending.end(9, "with the state")
		content, err := os.ReadFile(p.stateFile())
		if err != nil {
			t.Fatal(err)
		}
		if spoiled := test.spoil(content); spoiled == nil {
			err = os.Remove(p.stateFile())
		} else {
			err = os.WriteFile(p.stateFile(), spoiled, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		asideBefore := p.setAside()
		p.startAgent()
		p.endedWith(ending, 9, "with the state")
		p.right(engines)
		if got := p.setAside() > asideBefore; got != test.aside {
			t.Errorf("a state file that %s: set aside %v, want %v\n%s", test.name, got, test.aside, p.agent.Output)
		}
		always(t, tick, "with a state file that "+test.name, func() error { return undisturbed(engines) })
	}
}

// setAside is how many state files were set aside.
func (p *place) setAside() int {
	p.t.Helper()
	found, err := filepath.Glob(p.stateFile() + ".aside-*")
	if err != nil {
		p.t.Fatal(err)
	}
	return len(found)
}

// An agent that is older than the state file says so and leaves engines and file as they are.
func TestStateFileIsOfANewerVersion(t *testing.T) {
	t.Parallel()
	p := startPlace(t, settings{})
	engines := p.three("")
	p.right(engines)
	p.shut(p.agent)
	content, err := os.ReadFile(p.stateFile())
	if err != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(content, []byte(`"version":1`), []byte(`"version":99`), 1)
	if err := os.WriteFile(p.stateFile(), newer, 0o600); err != nil {
		t.Fatal(err)
	}
	older := p.newAgent()
	if code := older.Wait(patience); code == 0 {
		t.Error("it ended with 0")
	}
	if text := older.Output.String(); !strings.Contains(text, p.stateFile()) || !strings.Contains(text, "99") {
		t.Errorf("it says %s", text)
	}
	if left, err := os.ReadFile(p.stateFile()); err != nil || !bytes.Equal(left, newer) {
		t.Errorf("the file: %q, %v", left, err)
	}
	always(t, tick, "with an agent that is too old", func() error { return undisturbed(engines) })
	if err := os.WriteFile(p.stateFile(), content, 0o600); err != nil {
		t.Fatal(err)
	}
	p.startAgent()
	p.right(engines)
}
