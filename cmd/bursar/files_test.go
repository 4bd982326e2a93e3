package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
)

// A file to read that is not there ends a command with 66, and with 78 if it is the configuration
// of a server or what a client shows.
func TestAMissingFileHasItsExitCode(t *testing.T) {
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "BURSAR_") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	t.Chdir(t.TempDir())
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("file", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	input := []string{
		"quota apply -f FILE", "queues check -f FILE", "queues decode -f FILE",
		"provider set yarn:x --site FILE", "provider check yarn:x --site FILE",
		"token list --identities FILE", "token revoke x --identities FILE", "store set-aside --list --into FILE",
	}
	// A coordinator waits for a file that may be there later.
	never := []string{
		"coordinator --listen 127.0.0.1:0 --data-dir data --quotas FILE", "coordinator --listen 127.0.0.1:0 --data-dir data --providers FILE",
	}
	stores := []string{
		"store info --store FILE", "store epoch --at-least 5 --store FILE", "store copy --from FILE --to copy.db",
		"store set-aside host x --store FILE --into rows",
	}
	configuration := []string{
		"coordinator --config FILE", "coordinator --check --config FILE", "coordinator migrate --config FILE",
		"agent --config FILE", "agent --check --config FILE",
		"coordinator --check --quotas FILE", "coordinator --check --providers FILE",
		"store info --store-file FILE", "store copy --from-file FILE --to copy.db",
		"hosts --token-file FILE", "hosts --tls-ca FILE", "hosts --tls-cert FILE --tls-key FILE",
	}
	run := func(line, file string, want int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		said, err := os.Create(filepath.Join(t.TempDir(), "said"))
		if err != nil {
			t.Fatal(err)
		}
		defer said.Close()
		line = strings.ReplaceAll(line, "FILE", file)
		args := strings.Fields(line)
		if args[0] != "token" { // which calls no server
			args = append(args, "--addr", "https://127.0.0.1:1")
		}
		got := execute(ctx, args, cmdline.Streams{In: os.Stdin, Out: said, Err: said})
		text, _ := os.ReadFile(said.Name())
		if got != want || !strings.Contains(string(text), file) {
			t.Errorf("bursar %s ends with code %d and says %q: want %d, and the file's name", line, got, text, want)
		}
	}
	for _, file := range []string{"nowhere", "nowhere/file", "file/file", "folder"} {
		for _, line := range input {
			run(line, file, failure.ExitNoSuchThing)
		}
		for _, line := range configuration {
			run(line, file, failure.ExitConfig)
		}
	}
	for _, file := range []string{"file/file", "folder"} {
		for _, line := range never {
			run(line, file, failure.ExitNoSuchThing)
		}
	}
	for _, line := range stores {
		run(line, "nowhere", failure.ExitNoSuchThing)
		run(line, "nowhere/file", failure.ExitNoSuchThing)
	}
	if made, err := filepath.Glob("*"); err != nil || strings.Join(made, " ") != "file folder" {
		t.Errorf("there are %q, %v: want nothing new", made, err)
	}
}
