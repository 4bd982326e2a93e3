package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bursar/bursar/agent/keeper"
)

// ranScript launches a script, lets it run to its end, and returns its standard output.
func ranScript(t *testing.T, script []byte, arguments ...string) (output string, end keeper.Record, err error) {
	t.Helper()
	l, direct := launcher(t, "bursar-keeper")
	r := request(arguments...)
	r.Script = script
	s, err := l.Start(t.Context(), r)
	if err == nil {
		err = s.Confirm(t.Context())
	}
	await(t, direct)
	if err != nil {
		return "", keeper.Record{}, err
	}
	end, err = l.Records.End("a1")
	if err != nil {
		t.Fatal(err)
	}
	said, err := os.ReadFile(filepath.Join(s.LogDir, "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	return string(said), end, nil
}

// everyByte is a text with an interpreter, and then each byte there is, up to the largest script.
func everyByte(first string) []byte {
	script := []byte(first + "\n")
	for len(script) < 60<<10 {
		script = append(script, byte(len(script)*7), byte(len(script)))
	}
	return script
}

func TestAScriptIsExecutedAsItIs(t *testing.T) {
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	all := everyByte("#!/bin/cat")
	for name, test := range map[string]struct {
		script    []byte
		arguments []string
		says      string
		code      int32
	}{
		"a shell's, with arguments":      {[]byte("#!/bin/sh -e\necho \"$#\" \"$2\"; exit 7\n"), []string{"one", "$HOME; `id`"}, "2 $HOME; `id`\n", 7},
		"one that reads itself":          {all, nil, string(all), 0},
		"one that starts itself anew":    {[]byte("#!/bin/sh\n[ \"$1\" ] && echo again || \"$0\" x\n"), nil, "again\n", 0},
		"one whose end has no line feed": {[]byte("#!/bin/sh\nprintf end"), nil, "end", 0},
		"an interpreter by env":          {[]byte("#!/usr/bin/env sh\necho by env\n"), nil, "by env\n", 0},
		"a program of the machine":       {program, []string{"x"}, "", 0},
		"one that changes itself": {
			[]byte("#!/bin/sh\n(echo 'echo changed' >>\"$0\") 2>/dev/null && echo changed\n(: >\"$0\") 2>/dev/null && echo cut\necho same\n"), nil, "same\n", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			said, end, err := ranScript(t, test.script, test.arguments...)
			if err != nil || said != test.says || end.Exit.Code == nil || *end.Exit.Code != test.code {
				t.Errorf("it said %d bytes (%.100q), ended with %+v, %v", len(said), said, end, err)
			}
		})
	}
}

func TestAScriptThatCannotBeExecutedSaysWhy(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		script     []byte
		value, say string
	}{
		"no interpreter":                       {[]byte("echo hello\n"), "", "exec format"},
		"every byte":                           {everyByte("\x00"), "", "exec format"},
		"an interpreter that is not there":     {[]byte("#!/no/such/python -u\nsecret"), "/no/such/python", "no such file"},
		"an interpreter with a return":         {[]byte("#!/bin/sh\r\necho\r\n"), "/bin/sh", "carriage return"},
		"an interpreter that is not for users": {[]byte("#!" + plain + "\n"), plain, "permission denied"},
		"an interpreter that is a folder":      {[]byte("#!/usr\n"), "/usr", "permission denied"},
		"an interpreter without a name":        {[]byte("#!  \t \necho\n"), "", "exec format"},
		"half a program":                       {[]byte("\x7fELF\x02\x01\x01"), "", "exec format"},
	} {
		t.Run(name, func(t *testing.T) {
			said, _, err := ranScript(t, test.script)
			wrong, is := errors.AsType[*FieldError](err)
			if !is || wrong.Field != "script" || wrong.Value != test.value || !strings.Contains(err.Error(), test.say) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, %q", err, said)
			}
		})
	}
}

// An engine has nothing else of its keeper: of the files, its script alone.
func TestAScriptIsTheOnlyFileThatAnEngineGets(t *testing.T) {
	said, _, err := ranScript(t, []byte("#!/bin/sh\nfor f in /proc/self/fd/*; do case $(readlink $f) in *memfd*) echo memfd ${f##*/};; esac; done\nls /proc/$$/fd\n"))
	if err != nil || !strings.HasPrefix(said, "memfd 97\n") || strings.Contains(said, "98") || strings.Contains(said, "99\n") {
		t.Errorf("%q, %v", said, err)
	}
}

func TestRequiredVariablesMustBeSet(t *testing.T) {
	l, direct := launcher(t, "bursar-keeper")
	r := request("true")
	r.Environment = map[string]string{"A": "b", "EMPTY": ""}
	r.Added = map[string]string{"BURSAR_ALLOCATION_ID": "a1"}
	for _, missing := range []string{"LICENSE", "EMPTY", "A=b", ""} {
		r.RequiredVariables = []string{"A", "HOME", "BURSAR_ALLOCATION_ID", missing}
		_, err := l.Start(t.Context(), r)
		if wrong, is := errors.AsType[*FieldError](err); !is || wrong.Field != "required_variables[3]" || wrong.Value != missing {
			t.Errorf("%q: %v", missing, err)
		}
	}
	r.RequiredVariables = r.RequiredVariables[:3]
	s, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	s.Abandon()
	await(t, direct)
}

func TestRequiredFilesMustBeThere(t *testing.T) {
	l, direct := launcher(t, "bursar-keeper")
	dir := t.TempDir()
	fifo, link, dangling, loop := filepath.Join(dir, "fifo"), filepath.Join(dir, "link"), filepath.Join(dir, "dangling"), filepath.Join(dir, "loop")
	err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink(dir, link), os.Symlink("none", dangling), os.Symlink(loop, loop))
	if err != nil {
		t.Fatal(err)
	}
	there := []string{"/bin/sh", dir, fifo, link, link + "/fifo", dir + "//../" + filepath.Base(dir) + "/fifo"}
	for missing, say := range map[string]string{
		dir + "/none": "no such file", dangling: "no such file", loop: "too many levels", fifo + "/x": "not a directory", "/" + strings.Repeat("x", 300): "name too long",
	} {
		r := request("touch", filepath.Join(dir, "ran"))
		r.RequiredFiles = append(there, missing) //nolint:gocritic // another list
		_, err := l.Start(t.Context(), r)
		wrong, is := errors.AsType[*FieldError](err)
		if !is || wrong.Field != "required_files[6]" || wrong.Value != missing || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", missing, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("it ran")
	}
	r := request("true")
	r.RequiredFiles = there
	s, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	s.Abandon()
	await(t, direct)
}
