package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestVersions goes through the life of a checkout: the version of each step must look like this,
// and be later than the one before it, for dpkg and for rpm.
func TestVersions(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "deploy/package/version.sh")
	if err := os.MkdirAll(filepath.Dir(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, read(t, root+"/deploy/package/version.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	git := func(date string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE="+date, "GIT_AUTHOR_DATE="+date)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	last := ""
	for _, step := range []struct {
		name, want string
		do         func()
	}{
		{"no checkout", `0\.0~unknown`, func() {}},
		{"no tag", `0\.0~git20260102030405\.[0-9a-f]{7}`, func() {
			git("", "init", "-q")
			git("2026-01-02T03:04:05Z", "add", ".")
			git("2026-01-02T03:04:05Z", "commit", "-q", "-m", "a")
		}},
		{"changed", `0\.0~git20260102030405\.[0-9a-f]{7}\.dirty`, func() {
			if err := os.Chmod(script, 0o744); err != nil {
				t.Fatal(err)
			}
			git("", "add", ".")
			if err := os.WriteFile(filepath.Join(dir, "more"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			git("", "add", "more")
		}},
		{"a candidate", `1\.2\.0~rc\.1`, func() {
			git("2026-01-02T03:04:06Z", "commit", "-q", "-m", "b")
			git("2026-01-02T03:04:06Z", "tag", "v1.2.0-rc.1")
		}},
		{"a release", `1\.2\.0`, func() {
			git("2026-01-02T03:04:07Z", "commit", "-q", "--allow-empty", "-m", "c")
			git("2026-01-02T03:04:07Z", "tag", "v1.2.0")
		}},
		{"after it", `1\.2\.0\+git20260102030408\.[0-9a-f]{7}`, func() { git("2026-01-02T03:04:08Z", "commit", "-q", "--allow-empty", "-m", "d") }},
		{"a second later", `1\.2\.0\+git20260102030409\.[0-9a-f]{7}`, func() { git("2026-01-02T03:04:09Z", "commit", "-q", "--allow-empty", "-m", "e") }},
		{"the next release", `1\.2\.1`, func() {
			git("2026-01-02T03:04:10Z", "commit", "-q", "--allow-empty", "-m", "f")
			git("2026-01-02T03:04:10Z", "tag", "v1.2.1")
		}},
	} {
		step.do()
		version := strings.TrimSpace(output(t, script))
		if !regexp.MustCompile("^" + step.want + "$").MatchString(version) {
			t.Errorf("%s: version %s, want %s", step.name, version, step.want)
		}
		if last != "" && step.name != "no tag" { // "unknown" may be anything
			if err := exec.CommandContext(t.Context(), "dpkg", "--compare-versions", last, "lt", version).Run(); err != nil {
				t.Errorf("%s: for dpkg %s is not later than %s", step.name, version, last)
			}
			if later := strings.TrimSpace(output(t, "rpm", "--eval", `%{lua:print(rpm.vercmp("`+version+`", "`+last+`"))}`)); later != "1" {
				t.Errorf("%s: for rpm %s is not later than %s: %s", step.name, version, last, later)
			}
		}
		last = version
	}
}
