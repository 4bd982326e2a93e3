package statefile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/statefile"
)

func TestAnIdentityTokenIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent")
	dir := open(t, path)
	if token, err := dir.Token(); token != nil || err != nil {
		t.Errorf("a new directory has the token %x, %v", token, err)
	}
	for _, token := range [][]byte{bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)} {
		if err := dir.SetToken(token); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(path, "state.identity")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want a file of mode 600", info, err)
	}
	if err := dir.Save(state()); err != nil { // it does not touch the token
		t.Fatal(err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	next := open(t, path)
	if token, err := next.Token(); !bytes.Equal(token, bytes.Repeat([]byte{2}, 32)) || err != nil {
		t.Errorf("the next agent finds %x, %v", token, err)
	}
	// The directory is removed while the agent runs.
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := next.Begin(state()); err != nil {
		t.Fatal(err)
	}
	if token, err := os.ReadFile(file); !bytes.Equal(token, bytes.Repeat([]byte{2}, 32)) || err != nil {
		t.Errorf("a directory that was made again has the token %x, %v", token, err)
	}
}

// An invalid token is ignored: the coordinator decides by the place of the agent.
func TestAnOddTokenIsNone(t *testing.T) {
	for name, put := range map[string]func(file string) error{
		"empty":    func(file string) error { return os.WriteFile(file, nil, 0o600) },
		"too long": func(file string) error { return os.WriteFile(file, []byte(strings.Repeat("x", 65)), 0o600) },
		"a pipe":   func(file string) error { return unix.Mkfifo(file, 0o600) },
		"a folder": func(file string) error { return os.Mkdir(file, 0o700) },
	} {
		path := filepath.Join(t.TempDir(), "agent")
		dir := open(t, path)
		if err := put(filepath.Join(path, "state.identity")); err != nil {
			t.Fatal(err)
		}
		if token, err := dir.Token(); token != nil || err != nil {
			t.Errorf("%s: %q, %v", name, token, err)
		}
	}
}

func TestTheHostOfADirectoryIsFoundWithoutOpeningIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent")
	if host := statefile.HostOf(path); host != "" {
		t.Errorf("of no directory: %q", host)
	}
	dir := open(t, path)
	if err := dir.Save(state()); err != nil {
		t.Fatal(err)
	}
	if host := statefile.HostOf(path); host != state().HostID {
		t.Errorf("%q; want %q", host, state().HostID)
	}
	if err := os.WriteFile(dir.File(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if host := statefile.HostOf(path); host != "" {
		t.Errorf("of a damaged file: %q", host)
	}
}
