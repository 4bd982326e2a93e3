package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// weakPackage has mutants of every operator, some of which survive.
const weakPackage = "tools/mutants/testdata/weak"

// survivorsOfWeak are the mutants that the tests of testdata/weak do not notice.
func survivorsOfWeak() []string {
	const price, condition = weakPackage + "/weak.go | Price | ", " in if count > 10 && each > 1"
	return []string{
		price + "boundary | count > 10" + condition,
		price + "number | 10" + condition,
		price + "number | 1" + condition,
		price + "number | 1 in total -= max(1, total/10)",
		weakPackage + "/weak.go | Forget | removed | clear(list)",
		weakPackage + "/weak.go | Endless | number | 0 in n := 0",
	}
}

// runWeak judges testdata/weak with a list of survivors.
func runWeak(t *testing.T, list string, args ...string) (output string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "survivors.txt")
	if err := os.WriteFile(path, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = run(t.Context(), append(append([]string{"-survivors", path}, args...), "./testdata/weak"), &out)
	return out.String(), err
}

func TestWhatNoTestNoticesIsFoundAndNothingElse(t *testing.T) {
	before := textOfWeak(t)
	output, err := runWeak(t, "")
	if err == nil || !strings.Contains(err.Error(), "6 survivors") {
		t.Errorf("error %v; want one of 6 survivors", err)
	}
	var found []string
	for line := range strings.Lines(output) {
		if _, rest, survived := strings.Cut(line, "no test notices: "); survived {
			key, _, _ := strings.Cut(rest, "  (line ")
			found = append(found, key)
		}
	}
	slices.Sort(found) // they are told as they are found
	if diff := cmp.Diff(slices.Sorted(slices.Values(survivorsOfWeak())), found); diff != "" {
		t.Errorf("survivors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, textOfWeak(t)); diff != "" {
		t.Errorf("the tree has changed (-before +after):\n%s", diff)
	}
}

// textOfWeak has all files of the folder testdata/weak, by name.
func textOfWeak(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	entries, err := os.ReadDir("testdata/weak")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join("testdata/weak", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

func TestAListMustSayWhatSurvivesAndNoMore(t *testing.T) {
	all := strings.Join(survivorsOfWeak(), "\n") + "\n    They are there to be found.\n"
	if output, err := runWeak(t, "# A remark.\n\n"+all); err != nil {
		t.Errorf("with the right list: %v\n%s", err, output)
	}
	dead := weakPackage + "/weak.go | Old | boundary | age >= 2*time.Minute in return age >= 2*time.Minute"
	gone := weakPackage + "/weak.go | Vanished | removed | clear(list)"
	output, err := runWeak(t, all+"\n"+dead+"\n"+gone+"\n    It was harmless once.\n")
	if err == nil {
		t.Error("a list with mutants that do not survive is taken")
	}
	for _, key := range []string{dead, gone} {
		if !strings.Contains(output, "listed, and did not survive: "+key+"\n") {
			t.Errorf("nothing is said of %s in:\n%s", key, output)
		}
	}
}

func TestAMutantWithoutAReasonIsNoEntry(t *testing.T) {
	for list, want := range map[string]string{
		"a | b | c | d\n":                         "survivors.txt:1: a mutant without a reason",
		"a | b | c | d\n\nb | b | c | d\n  why\n": "survivors.txt:1: a mutant without a reason",
		"a | b | c | d\n  why\nb | b | c | d\n":   "survivors.txt:3: a mutant below the reason of another",
		"a | b | c | d\na | b | c | d\n  why\n":   "survivors.txt:2: listed twice",
	} {
		if _, err := runWeak(t, list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", list, err, want)
		}
	}
}

func TestOnlyEachNthMutantIsTried(t *testing.T) {
	output, _ := runWeak(t, "", "-every", "9")
	if !strings.Contains(output, ": 3 of 27 mutants tried") {
		t.Errorf("of 27 mutants, each 9th: %s", output)
	}
}

func TestOnlyMutantsThatMatchAreTried(t *testing.T) {
	output, err := runWeak(t, "", "-only", `weak\.go \| Forget`)
	if err == nil || !strings.Contains(output, ": 1 of 27 mutants tried") || !strings.Contains(output, "clear(list)") {
		t.Errorf("of one function: %v\n%s", err, output)
	}
	if _, err := runWeak(t, "", "-only", "("); err == nil || !strings.Contains(err.Error(), "-only") {
		t.Errorf("an expression that is none: %v", err)
	}
}

func TestOnlyTheFilesThatAreNamedAreTried(t *testing.T) {
	paths, files := packagesOf([]string{"./a", "./b/one.go", "b/two.go", "./c"})
	if want := []string{"./a", "./b", "./c"}; !slices.Equal(paths, want) {
		t.Errorf("packages %q; want %q", paths, want)
	}
	if diff := cmp.Diff(map[string][]string{"./b": {"one.go", "two.go"}}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	mutants := []*mutant{{key: key{file: "b/one.go"}}, {key: key{file: "b/three.go"}}}
	if got := sample(mutants, 1, regexp.MustCompile(""), files["./b"]); len(got) != 1 {
		t.Errorf("%d mutants; want the one of b/one.go", len(got))
	}
	var out bytes.Buffer
	err := run(t.Context(), []string{"-survivors", os.DevNull, "testdata/weak/gone.go"}, &out)
	if err == nil || !strings.Contains(err.Error(), "gone.go") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestTheQuickestTestsRunFirst(t *testing.T) {
	stages := stagesOf("--- PASS: TestSlow (2.50s)\n    --- PASS: TestSlow/part (2.40s)\n--- PASS: TestA (0.06s)\n" +
		"--- PASS: TestB (0.01s)\n--- SKIP: TestSkipped (0.00s)\n--- PASS: TestC (0.05s)\nPASS\n")
	want := [][]string{{"TestB", "TestC"}, {"TestA"}, {"TestSlow"}}
	if diff := cmp.Diff(want, stages); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What was found before an interruption is kept.
func TestAnInterruptedRunHasToldWhatItFound(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := &cancelAtFirstLine{cancel: cancel}
	list := filepath.Join(t.TempDir(), "survivors.txt")
	if err := os.WriteFile(list, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(ctx, []string{"-survivors", list, "-workers", "1", "./testdata/weak"}, out)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	text := out.String()
	if strings.Count(text, "no test notices") != 1 || !strings.Contains(text, " of 27 mutants tried in ") || !strings.Contains(text, ", 1 survived") {
		t.Errorf("interrupted at its first survivor it has told:\n%s", text)
	}
}

// cancelAtFirstLine cancels a context at the first line that is written.
type cancelAtFirstLine struct {
	bytes.Buffer

	cancel context.CancelFunc
}

func (c *cancelAtFirstLine) Write(text []byte) (int, error) {
	c.cancel()
	return c.Buffer.Write(text)
}
