package yamlfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/test/proc"
	"github.com/bursar/bursar/test/underrace"
)

// parsed parses and decodes a file, and returns the memory and time of that.
func parsed(t *testing.T, text string) (bytes uint64, took time.Duration, err error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	doc, err := Parse("x.yaml", []byte(text))
	if err == nil {
		var into struct {
			Quotas []struct {
				Selector map[string]Scalar `yaml:"selector"`
			} `yaml:"quotas"`
		}
		err = doc.Decode(&into)
	}
	took = time.Since(began)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, took, err
}

// bounded checks that a file is rejected at a line, at little cost.
func bounded(t *testing.T, text, want string, most uint64) {
	t.Helper()
	delays := proc.Delays(t)
	bytes, took, err := parsed(t, text)
	t.Logf("%d bytes: %d KiB, %s: %v", len(text), bytes>>10, took, err)
	var e *Error
	if !errors.As(err, &e) || e.Line < 1 || !strings.HasPrefix(err.Error(), "x.yaml:") || !strings.Contains(err.Error(), want) {
		t.Errorf("%v: want a place and %q", err, want)
	}
	if bytes > most || took > underrace.Factor*2*time.Second+delays() {
		t.Errorf("a file of %d bytes took %d KiB and %s", len(text), bytes>>10, took)
	}
}

func TestDeeplyNestedFilesAreRefusedBeforeTheyAreParsed(t *testing.T) {
	var lines strings.Builder
	for i := range 220 {
		fmt.Fprintf(&lines, "%*sa:\n", i, "")
	}
	for name, text := range map[string]string{
		"lists in brackets":          strings.Repeat("[", 25<<10),
		"lists in brackets, closed":  strings.Repeat("[", 12<<10) + strings.Repeat("]", 12<<10),
		"fields in braces":           strings.Repeat("{a: ", 6<<10) + strings.Repeat("}", 1<<10),
		"both, over several lines":   strings.Repeat("[{a: \n", 4<<10),
		"lists in one line":          strings.Repeat("- ", 12<<10),
		"lists with anchors":         strings.Repeat("- &a ", 5<<10),
		"fields, each in a line":     lines.String(),
		"lists of fields":            strings.Repeat("- a:\n", 1) + nestedItems(100),
		"behind a field of two":      "quotas:\n- selector: " + strings.Repeat("[", 25<<10),
		"keys that are lists":        strings.Repeat("? - ", 6<<10),
		"brackets among other files": "quotas: []\n---\n" + strings.Repeat("[", 25<<10),
	} {
		t.Run(name, func(t *testing.T) { bounded(t, text, "nested more than 32 deep: want at most 32", 32<<20) })
	}
}

// nestedItems returns nested lists with one set of fields each.
func nestedItems(depth int) string {
	var b strings.Builder
	for i := range depth {
		fmt.Fprintf(&b, "%*s- a:\n", 2*i+1, "")
	}
	return b.String()
}

func TestFilesThatAreNotDeepAreParsed(t *testing.T) {
	var wide, deep strings.Builder
	wide.WriteString("quotas:\n")
	for i := range 4000 {
		fmt.Fprintf(&wide, "- selector: {user: u%d, creator: \"[[[[\", note: 'a: {a: {', other: - - }\n  # [[[[[[\n", i)
	}
	deep.WriteString(strings.Repeat("[", maxDepth-1) + "\n" + strings.Repeat("]", maxDepth-1))
	for name, text := range map[string]string{
		"many rules": strings.ReplaceAll(wide.String(), ", other: - - ", ""), "as deep as may be": deep.String(),
		"a text of several lines": "a: |\n" + strings.Repeat("  [[[[ {{{{ - - - -\n", 100), "a long text": "a: " + strings.Repeat("b ", 4000) + "\n" + strings.Repeat("  c\n", 400),
	} {
		if _, err := Parse("x.yaml", []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The values that a few lines of aliases stand for are counted before they are made.
func TestAliasesThatStandForTooMuchAreRefused(t *testing.T) {
	within := func(first, item, last string, of int) string {
		var b strings.Builder
		b.WriteString(first)
		for i := 1; i < 9; i++ {
			fmt.Fprintf(&b, item, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), of), ", "))
		}
		return b.String() + last
	}
	for name, text := range map[string]string{
		"lists":        within("a0: &a0 x\n", "a%[1]d: &a%[1]d [%[2]s]\n", "", 10),
		"merged rules": within("quotas:\n- &a0 {selector: {user: x}}\n", "- &a%d {<<: [%s]}\n", "", 10),
		"selectors":    within("quotas:\n- selector: &a0 {user: x}\n", "- selector: &a%d {<<: [%s]}\n", "", 10),
		"two each":     within("quotas:\n- selector: &a0 {user: x}\n", "- selector: &a%d {<<: [%s]}\n", "", 60),
	} {
		t.Run(name, func(t *testing.T) {
			bounded(t, text, "aliases repeat more than 100000 values: want them written out", 32<<20)
		})
	}
	if _, _, err := parsed(t, "quotas:\n- selector: &everyone {user: a}\n- selector: *everyone\n- selector: {<<: *everyone, creator: b}\n"); err != nil {
		t.Errorf("a few aliases: %v", err)
	}
	for name, text := range map[string]string{"of itself": "quotas: &q\n- *q\n", "merged with itself": "quotas:\n- selector: &q {<<: *q}\n"} {
		if bytes, _, err := parsed(t, text); err == nil || bytes > 32<<20 {
			t.Errorf("%s: %v, %d bytes", name, err, bytes)
		}
	}
}

func TestFileOfManyPartsIsRefusedUnread(t *testing.T) {
	const want = "more than 1048576 colons, dashes, brackets, line ends and the like"
	bounded(t, strings.Repeat("- a\n", 1<<20), want, 64<<20)
	bounded(t, strings.Repeat("[", 8<<20), want, 64<<20)
	for _, indicator := range []string{"%", "@", "`"} {
		bounded(t, "quotas: "+strings.Repeat(indicator, 7_900_000), want, 64<<20)
	}
}

func TestOfALongLineTheExcerptIsThePartAroundThePlace(t *testing.T) {
	line := strings.Repeat("ä", 1<<20)
	for _, column := range []int{1, 60, 120, 121, 5000, 1 << 20} {
		e := &Error{Line: 1, Column: column, lines: []string{line[:2*(column-1)] + "!" + line}}
		shown, caret, _ := strings.Cut(e.Excerpt(), "\n")
		if len(shown) > 300 || len(caret) > 300 || strings.Index(strings.ReplaceAll(shown, "ä", "a"), "!") != strings.Index(caret, "^") {
			t.Errorf("column %d:\n%s", column, e.Excerpt())
		}
	}
}

func TestARuleForEachOfTenThousandHostsIsRead(t *testing.T) {
	var b strings.Builder
	b.WriteString("quotas:\n")
	for i := range 10_000 {
		fmt.Fprintf(&b, "- selector: {name: agent-%d, role: agent, host: host-%d.rack-1.example.com, tokenHash: \"sha256:%064d\"}\n", i, i, i)
	}
	bytes, took, err := parsed(t, b.String())
	t.Logf("%d KiB: %d MiB, %s", b.Len()>>10, bytes>>20, took)
	if err != nil {
		t.Error(err)
	}
}

// With any arrangement of YAML's marks, a file of 2 KiB costs no more than the limit for a file of
// 8 MiB.
func TestNoArrangementOfMarksIsExpensive(t *testing.T) {
	marks := []string{"[", "{", "]", "}", "- ", "? ", "a: ", "&a ", "*a ", "!!map ", "!!seq ", "<<: ", "\n", " ", "  ", ", ", ": ", "b", "|\n", "\"x\"", "---\n", "# c\n", "- - ", "- a: ", "\n "}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		part := ""
		for range 1 + random.IntN(6) {
			part += marks[random.IntN(len(marks))]
		}
		text := strings.Repeat(part, 2048/len(part))
		if bytes, took, err := parsed(t, text); bytes > 64<<20 {
			t.Errorf("%q repeated: %d MiB, %s: %v", part, bytes>>20, took, err)
		}
	}
}
