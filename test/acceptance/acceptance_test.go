// Package acceptance tests the long runs in small: that `make acceptance` runs every part with its
// size, goes on when one fails, and names in its last line what failed, and that `make fuzz` knows
// and judges every fuzz target.
package acceptance

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the tree's.
const root = "../.."

// script runs a program, and returns the lines that it printed and its exit code.
func script(t *testing.T, dir, path string, program ...string) (lines []string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program[0], program[1:]...)
	cmd.Dir = dir
	// Settings of a make around this test are not for the make under test.
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PARTS", "PROGRESS"}, name) {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	if path != "" {
		cmd.Env = append(cmd.Env, "PATH="+path+":"+os.Getenv("PATH"))
	}
	printed, err := cmd.CombinedOutput()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(printed)), "\n"), code
}

func write(t *testing.T, file, content string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func TestEveryPartRunsAndWhatFailedIsNamed(t *testing.T) {
	making, err := exec.LookPath("make")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		fails, last string
		code        int
	}{
		{"none", `  PASSED after 0m\d\ds: cases engines new-machine sim kills fuzz soak callers failovers matrix linkis test-arches test-yunikorn mutants$`, 0},
		{"kills|soak", `  FAILED after 0m\d\ds: \[make kills\] \[make soak\]$`, 2},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "make"), "#!/bin/sh\necho \"ran $1 $SEEDS $KILLS $FUZZTIME $SOAKTIME $SUBMISSIONS ${MUTANTS%% *}\"\n"+
			"case $1 in "+test.fails+") exit 2;; esac\n", 0o755)
		lines, code := script(t, root, dir, making, "--no-print-directory", "acceptance", "KILLS=7")
		var ran []string
		ended := ""
		for _, line := range lines {
			if part, is := strings.CutPrefix(line, "ran "); is {
				ran = append(ran, part)
			}
			if strings.HasPrefix(line, "==== ") {
				ended = line
			}
		}
		var want []string
		for _, part := range []string{"cases", "engines", "new-machine", "sim", "kills", "fuzz", "soak", "callers", "failovers", "matrix", "linkis", "test-arches", "test-yunikorn", "mutants"} {
			want = append(want, part+" 100000 7 1m 10m 200 ./resource")
		}
		if !slices.Equal(ran, want) || code != test.code {
			t.Errorf("%s: ran %q, code %d; want %q, code %d", test.fails, ran, code, want, test.code)
		}
		if !regexp.MustCompile(test.last).MatchString(ended) {
			t.Errorf("%s: ends with %q, want %q", test.fails, ended, test.last)
		}
	}
}

// fuzzed is a package with two targets. No line here begins as theirs do: `make fuzz` looks into
// this file too.
const fuzzed = "package fuzzed\n\nimport \"testing\"\n\n" +
	"func FuzzBad(f *testing.F)  { f.Add(1); f.Fuzz(func(t *testing.T, n int) { t.Error(n) }) }\n" +
	"func FuzzGood(f *testing.F) { f.Add(1); f.Fuzz(func(t *testing.T, n int) {}) }\n"

func TestAFuzzTargetThatFailsIsNamedAndTheOthersRun(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module fuzzed\n", 0o600)
	write(t, filepath.Join(dir, "fuzzed_test.go"), fuzzed, 0o600)
	fuzz, err := filepath.Abs(filepath.Join(root, ".ci/fuzz"))
	if err != nil {
		t.Fatal(err)
	}
	lines, code := script(t, dir, "", fuzz, "5x")
	printed := strings.Join(lines, "\n")
	if last := lines[len(lines)-1]; code != 1 || !strings.HasSuffix(last, "FAILED: 1 of 2 fuzz targets: [. FuzzBad]") {
		t.Errorf("code %d, last line %q", code, last)
	}
	if !strings.Contains(printed, "  . FuzzGood\n") || !strings.Contains(printed, "ok  \tfuzzed") {
		t.Errorf("FuzzGood did not run:\n%s", printed)
	}
}

// Every function that Go takes for a fuzz target is one that `make fuzz` runs.
func TestMakeFuzzKnowsEveryTarget(t *testing.T) {
	var want []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && path != root && (name == "testdata" || strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declared := range file.Decls {
			if f, is := declared.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
				want = append(want, "./"+strings.TrimPrefix(path, root+"/")+":"+f.Name.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got, code := script(t, root, "", ".ci/fuzz", "list")
	slices.Sort(got)
	slices.Sort(want)
	if code != 0 || len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("make fuzz runs %q (code %d), want %q", got, code, want)
	}
}
