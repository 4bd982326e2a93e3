package check

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The names of the settings stand where they are read: in the manager's jar, in the ECM's, here,
// and in the documentation.
func TestSettingsAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	quoted := regexp.MustCompile(`"([a-z]+(?:\.[a-z]+)*)"`)
	ecm := names(t, "../ecm/src/main/java/io/github/bursar/linkis/ecm/EcmSettings.java",
		regexp.MustCompile(`(?s)OF_THE_MANAGER =(.*?);`), quoted)
	ecm = append(ecm, names(t, "../ecm/src/main/java/io/github/bursar/linkis/ecm/EcmSettings.java",
		regexp.MustCompile(`(?s)PREFIX = "linkis.bursar.";\n(.*?)\n\n`), regexp.MustCompile(`PREFIX \+ "([a-z.]+)"`))...)
	for where, got := range map[string][]string{
		"the manager's jar": names(t, "../manager/src/main/java/io/github/bursar/linkis/Settings.java",
			regexp.MustCompile(`(?s)NAMES =(.*?);`), quoted),
		"the ECM's jar": ecm,
		"docs/linkis.md": names(t, "../../../docs/linkis.md",
			regexp.MustCompile(`(?s)\| setting \| meaning \| default \|\n(.*?)\n\n`), regexp.MustCompile("(?m)^\\| `([a-z.]+)` \\|")),
	} {
		slices.Sort(got)
		if diff := cmp.Diff(bursarSettings(), got); diff != "" {
			t.Errorf("settings of %s (-check +%s):\n%s", where, where, diff)
		}
	}
}

// names are what item finds in the part of a file that has them.
func names(t *testing.T, path string, part, item *regexp.Regexp) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	list := part.FindSubmatch(text)
	if list == nil {
		t.Fatalf("%s has no %v", path, part)
	}
	var found []string
	for _, m := range item.FindAllSubmatch(list[1], -1) {
		found = append(found, string(m[1]))
	}
	return found
}
