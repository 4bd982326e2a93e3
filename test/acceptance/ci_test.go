package acceptance

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What a test builds of an old version needs modules that may have left go.mod. A machine that
// never built that version lacks them, and tests have no network.
func TestTheModulesOfEveryOldVersionAreProvided(t *testing.T) {
	commit := regexp.MustCompile(`"([0-9a-f]{40})"`)
	var built []string
	err := filepath.WalkDir(filepath.Join(root, "test"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range commit.FindAllSubmatch(source, -1) {
			built = append(built, string(found[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(built)
	provided, code := script(t, root, "", "tools/before/provide.sh", "--list")
	slices.Sort(provided)
	if built = slices.Compact(built); code != 0 || len(built) == 0 || !slices.Equal(built, provided) {
		t.Errorf("tests name the commits %q; make modules downloads what %q need (code %d)", built, provided, code)
	}
}

// .ci/run in a clone of its own, next to a home directory with everything that a developer has.
func TestCISeesNothingOfTheHomeDirectory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, clone := filepath.Join(dir, "home"), filepath.Join(dir, "clone")
	mirror, maven := filepath.Join(home, "go/pkg/mod/cache/download"), filepath.Join(home, ".m2/repository")
	for _, folder := range []string{filepath.Join(clone, ".ci"), mirror, maven, filepath.Join(home, "bin")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run, err := os.ReadFile(filepath.Join(root, ".ci/run"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(clone, ".ci/run"), string(run), 0o755)
	cmd := exec.CommandContext(t.Context(), filepath.Join(clone, ".ci/run"), "env")
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + home + "/bin:" + os.Getenv("PATH"), "XDG_CACHE_HOME=" + home + "/.cache", "GOBIN=" + home + "/bin",
		"GOPROXY=off", "GOFLAGS=-buildvcs=false", "GOCACHE=" + home + "/compiled", "GIT_CONFIG_GLOBAL=" + home + "/.gitconfig", "MAVEN_OPTS=-Duser.home=" + home,
		"GONOSUMDB=example.org", "GOSUMDB=sum.example.org",
	}
	printed, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	settings := make(map[string]string)
	for line := range strings.Lines(string(printed)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		settings[name] = value
		if strings.Contains(value, home) && name != "GOCACHE" && name != "GOPROXY" {
			t.Errorf("CI is led to the home directory: %s", line)
		}
	}
	for name, want := range map[string]string{
		"HOME": clone + "/.cache/home", "GOMODCACHE": clone + "/.cache/go/pkg/mod", "GOPATH": clone + "/.cache/go", "GOENV": "off",
		"GOLANGCI_LINT_CACHE": clone + "/.cache/golangci-lint", "npm_config_cache": clone + "/.cache/npm",
		"GOCACHE": home + "/compiled", "GOPROXY": "file://" + mirror + ",off", "GOFLAGS": "-modcacherw -buildvcs=false",
		"GONOSUMDB": "example.org", "GOSUMDB": "sum.example.org",
	} {
		if settings[name] != want {
			t.Errorf("%s is %q, want %q", name, settings[name], want)
		}
	}
	for file, want := range map[string]string{".mavenrc": "-Duser.home=" + clone + "/.cache/home", ".m2/settings.xml": "<url>file://" + maven + "</url>"} {
		if content, err := os.ReadFile(filepath.Join(clone, ".cache/home", file)); err != nil || !strings.Contains(string(content), want) {
			t.Errorf("%s has %q (%v), want %q in it", file, content, err, want)
		}
	}
}

// Of two lists of parts next to each other, the output of the second one comes at the end; that its
// parts begin and end is shown at once.
func TestPartsThatRunNextToOthersShowTheirProgress(t *testing.T) {
	making, err := exec.LookPath("make")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	seen := filepath.Join(dir, "seen")
	part, err := filepath.Abs(filepath.Join(root, ".ci/part"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "make"), "#!/bin/sh\ncase $1 in\n"+
		"provide) exec "+part+" hidden sh -c 'echo said; until [ -e "+seen+" ]; do sleep 0.05; done; exit 3' ;;\n"+
		"*) exec "+part+" -q there true ;;\nesac\n", 0o755)
	// In a folder of its own, because it writes bin/test-begin.log.
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "Makefile"), string(makefile), 0o600)
	write(t, filepath.Join(dir, "go.mod"), "module github.com/bursar/bursar\n", 0o600)
	cmd := exec.CommandContext(t.Context(), making, "--no-print-directory", "MAKE="+filepath.Join(dir, "make"), "--assume-old=modules", "test-begin")
	cmd.Dir, cmd.Stderr = dir, io.Discard
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PROGRESS"}, name)
	})
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if strings.HasSuffix(lines.Text(), "  hidden began") {
			write(t, seen, "", 0o600)
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("a part failed, and make did not")
	}
	want := regexp.MustCompile(`^== \d\d:\d\d:\d\d  hidden began\n== \d\d:\d\d:\d\d  hidden FAILED after 0m\d\d?s\nsaid\n`)
	if !want.Match(all.Bytes()) {
		t.Errorf("make printed %q, want %s", all.String(), want)
	}
}
