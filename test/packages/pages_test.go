package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryCommandHasAManualPage(t *testing.T) {
	tree := unpacked(t)
	var want []string
	var walk func(path []string)
	walk = func(path []string) {
		want = append(want, strings.Join(append([]string{"bursar"}, path...), "-")+".1.gz")
		for _, name := range commandsBelow(t, tree, path) {
			walk(append(slices.Clone(path), name))
		}
	}
	walk(nil)
	want = append(want, "bursar-linkis-check.1.gz")
	// What completes, but is about all commands.
	want = slices.DeleteFunc(want, func(page string) bool {
		return page == "bursar-help.1.gz" || strings.HasPrefix(page, "bursar-completion")
	})
	slices.Sort(want)
	got := pages(t, tree, 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("section 1 (-commands +pages):\n%s", diff)
	}
	for section, want := range map[int][]string{
		5: {"bursar-agent.yaml.5.gz", "bursar-coordinator.yaml.5.gz"},
		7: {"bursar-environment.7.gz", "bursar-exit-codes.7.gz", "bursar-external.7.gz", "bursar-names.7.gz", "bursar-output.7.gz"},
		8: {"bursar-keeper.8.gz"},
	} {
		if diff := cmp.Diff(want, pages(t, tree, section)); diff != "" {
			t.Errorf("section %d (-want +got):\n%s", section, diff)
		}
	}
}

// commandsBelow reads the commands after a path of them from the program's help.
func commandsBelow(t *testing.T, tree string, path []string) []string {
	t.Helper()
	program := filepath.Join(tree, "usr/bin/bursar")
	out, err := exec.CommandContext(t.Context(), program, append(slices.Clone(path), "--help")...).Output()
	if err != nil {
		t.Fatalf("%q --help: %v", path, err)
	}
	var names []string
	listed := false
	for line := range strings.Lines(string(out)) {
		switch {
		case !strings.HasPrefix(line, " "):
			heading := strings.TrimSpace(line)
			listed = strings.HasPrefix(heading, "To ") || strings.HasPrefix(heading, "Additional Commands") || strings.HasPrefix(heading, "Available Commands")
		case listed && strings.HasPrefix(line, "  ") && strings.TrimSpace(line) != "":
			names = append(names, strings.Fields(line)[0])
		}
	}
	return names
}

func pages(t *testing.T, tree string, section int) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(tree, "usr/share/man/man"+strconv.Itoa(section)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestManualPagesAreFormattedWithoutWarnings(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(unpacked(t), "usr/share/man/man*/*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		cmd := exec.CommandContext(t.Context(), "man", "--warnings", "--encoding=UTF-8", "--troff-device=utf8", "--ditroff", "--local-file", file)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANROFFSEQ=", "MANWIDTH=80")
		var warnings strings.Builder
		cmd.Stderr = &warnings
		if out, err := cmd.Output(); err != nil || warnings.Len() > 0 || len(out) == 0 {
			t.Errorf("%s: %v, %d bytes\n%s", filepath.Base(file), err, len(out), warnings.String())
		}
	}
}

func TestCompletionForBash(t *testing.T) {
	tree := unpacked(t)
	script := filepath.Join(tree, "usr/share/bash-completion/completions/bursar")
	output(t, "bash", "-n", script)
	// It asks the program, which must be found by its name.
	asked := `COMP_WORDS=(bursar quota ''); COMP_CWORD=2; COMP_LINE='bursar quota '; COMP_POINT=13; COMP_TYPE=9
compopt() { :; }; _get_comp_words_by_ref() { cur=; prev=quota; words=("${COMP_WORDS[@]}"); cword=2; }
. "$1"; __start_bursar; printf '%s\n' "${COMPREPLY[@]}"`
	t.Setenv("PATH", filepath.Join(tree, "usr/bin")+":"+os.Getenv("PATH"))
	if got := output(t, "bash", "-c", asked, "bash", script); !strings.Contains(got, "apply") {
		t.Errorf("bursar quota <TAB> offers %q", got)
	}
	script += "-linkis-check"
	output(t, "bash", "-n", script)
	asked = `COMP_WORDS=(bursar-linkis-check --no); COMP_CWORD=1; COMP_LINE='bursar-linkis-check --no'; COMP_POINT=24; COMP_TYPE=9
compopt() { :; }; _get_comp_words_by_ref() { cur=--no; prev=bursar-linkis-check; words=("${COMP_WORDS[@]}"); cword=1; }
. "$1"; __start_bursar-linkis-check; printf '%s\n' "${COMPREPLY[@]}"`
	if got := output(t, "bash", "-c", asked, "bash", script); !strings.Contains(got, "--no-database") {
		t.Errorf("bursar-linkis-check --no<TAB> offers %q", got)
	}
}
