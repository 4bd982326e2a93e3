package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// standIn puts a shell script named bursar into PATH, alone but for the system's programs.
func standIn(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bursar"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	t.Setenv("BURSAR_ADDR", "")
}

func TestHostsAreThoseThatBursarPrints(t *testing.T) {
	args := filepath.Join(t.TempDir(), "args")
	standIn(t, `printf '%s\n' "$@" >`+args+`
echo 'bursar: no answer yet' >&2
echo '{"hosts": [{"id": "vm-one", "account": {"limit": {"memoryBytes": "1024"}}, "fieldOfTomorrow": 1}]}'`)
	var said bytes.Buffer
	f := coordinatorFlags{addr: "http://rm-1:7070", tokenFile: "token; file", serverName: "rm"}
	hosts, err := f.hosts(t.Context(), &said)
	if err != nil || len(hosts) != 1 || hosts[0].GetId() != "vm-one" || hosts[0].GetAccount().GetLimit().GetMemoryBytes() != 1024 {
		t.Errorf("%v, %v", hosts, err)
	}
	if said.String() != "bursar: no answer yet\n" {
		t.Errorf("said %q", said.String())
	}
	got, err := os.ReadFile(args)
	want := "hosts\n--output\njson\n--addr=http://rm-1:7070\n--token-file=token; file\n--tls-server-name=rm\n"
	if err != nil || string(got) != want {
		t.Errorf("called with %q, %v, want %q", got, err, want)
	}
}

func TestNobodyIsAskedUnlessTheUserNamesACoordinator(t *testing.T) {
	standIn(t, "exit 3")
	var f coordinatorFlags
	if hosts, err := f.hosts(t.Context(), &bytes.Buffer{}); hosts != nil || err != nil {
		t.Errorf("%v, %v", hosts, err)
	}
}

// No host is not the same as no answer: every ECM lacks one then.
func TestABursarWithoutHostsWasAsked(t *testing.T) {
	standIn(t, "echo '{}'")
	t.Setenv("BURSAR_ADDR", "rm-1:7070")
	var f coordinatorFlags
	if hosts, err := f.hosts(t.Context(), &bytes.Buffer{}); hosts == nil || len(hosts) > 0 || err != nil {
		t.Errorf("%v, %v", hosts, err)
	}
}

func TestErrorsOfBursarAreThisProgramsOwn(t *testing.T) {
	for name, test := range map[string]struct {
		script, output string
		code           int
		want           string
	}{
		"its words": {
			`echo '{"error":{"message":"nobody answers at rm-1","exitCode":69,"notes":["a note"],"hints":["a hint"]}}' >&2; exit 69`, outputTable, 69,
			"bursar-linkis-check: nobody answers at rm-1\n  a note\nhint: a hint\n",
		},
		"in JSON": {
			`echo '{"error":{"message":"no","exitCode":77,"notes":[],"hints":["a hint"],"code":"permission_denied"}}' >&2; exit 77`, outputJSON, 77,
			`{"error":{"message":"no","exitCode":77,"notes":[],"hints":["a hint"]}}` + "\n",
		},
		"no words":       {"exit 78", outputTable, 78, "bursar-linkis-check: bursar hosts: exit status 78\n"},
		"a signal":       {"kill -9 $$", outputTable, 69, "bursar-linkis-check: bursar hosts: signal: killed\n"},
		"no JSON":        {"echo ID", outputTable, 1, "bursar-linkis-check: the answer of "},
		"a long message": {`head -c 200000 /dev/zero | tr '\0' x >&2; exit 69`, outputTable, 69, "bursar-linkis-check: bursar hosts: exit status 69\n"},
	} {
		t.Run(name, func(t *testing.T) {
			standIn(t, test.script)
			var said bytes.Buffer
			f := coordinatorFlags{addr: "rm-1"}
			_, err := f.hosts(t.Context(), &said)
			i := &invocation{Streams: Streams{Err: &said}, output: test.output}
			i.report(err)
			if exitCode(err) != test.code || !strings.HasPrefix(said.String(), test.want) {
				t.Errorf("code %d, want %d:\n%s\nwant\n%s", exitCode(err), test.code, said.String(), test.want)
			}
		})
	}
}

func TestAMissingBursarIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	f := coordinatorFlags{addr: "rm-1"}
	_, err := f.hosts(t.Context(), &bytes.Buffer{})
	if exitCode(err) != exitUnavailable || !strings.Contains(err.Error(), "the program bursar is neither next to this one nor in PATH") {
		t.Errorf("code %d: %v", exitCode(err), err)
	}
}
