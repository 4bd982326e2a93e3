package look

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp/syntax"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/agent/keeper"
)

// A line is found wherever the reads end.
func TestReadsMayEndAnywhere(t *testing.T) {
	const text = "\nnot Started on 80\r\n\x00\xff\n\nStarted on 80\r\nlast"
	for _, test := range []struct {
		pattern string
		found   bool
	}{
		{"^Started on 80$", true},
		{"^on", false},
		{"^$", true},
		{"^\x00", true},
		{"80\r", false},
		{"last", false}, // as long as it may go on
		{"Started.*last", false},
	} {
		for first := range len(text) + 1 {
			for second := first; second <= len(text); second++ {
				l := compiled(t, test.pattern)
				found := false
				for _, part := range []string{text[:first], text[first:second], text[second:]} {
					found = l.write([]byte(part)) || found
				}
				if found != test.found {
					t.Errorf("%q, in reads that end at %d and %d: %t", test.pattern, first, second, found)
				}
			}
		}
	}
}

func compiled(t interface {
	Helper()
	Fatal(args ...any)
}, pattern string,
) *lines {
	t.Helper()
	whole, err := Pattern(pattern)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := inner(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return &lines{whole: whole, cut: cut}
}

// Of a long line the last bytes count, and its beginning is not taken for that of a line.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, test := range []struct {
		pattern, text string
		found         bool
	}{
		{"END$", long + "END\n", true},
		{"^x", long + "\n", false},
		{"^x|y", long + "\n", false},
		{"(?m)^x", long + "\n", false},
		{`\Ax`, long + "\n", false},
		{"^x", long + "\nx\n", true},
		{"BEGIN", "BEGIN" + long + "\n", false},
		{"^x{9}$", strings.Repeat("x", 9) + "\n", true},
		{"^x", strings.Repeat("x", mostOfLine) + "\n", true},
		{"^x", strings.Repeat("x", mostOfLine+1) + "\n", false},
	} {
		for _, size := range []int{1 << 20, chunk, 4096, 4097} {
			l := compiled(t, test.pattern)
			found := false
			for text := test.text; text != ""; text = text[min(size, len(text)):] {
				found = l.write([]byte(text[:min(size, len(text))])) || found
				if len(l.part) > mostOfLine {
					t.Fatalf("%d bytes are kept", len(l.part))
				}
			}
			if found != test.found {
				t.Errorf("%q in %.20q…, in reads of %d bytes: %t", test.pattern, test.text, size, found)
			}
		}
	}
}

// The bound holds for the program that package regexp makes.
func TestPatternsHaveABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`(\(?[ab.]\)?(\{[0-9]{1,3}\}|\*|\+|\?|\{1,[0-9]{2}\})?){1,6}`).Draw(t, "pattern")
		for range rapid.IntRange(0, 4).Draw(t, "depth") {
			text = fmt.Sprintf("(%s){%d}", text, rapid.IntRange(1, 100).Draw(t, "times"))
		}
		if _, err := Pattern(text); err != nil {
			return
		}
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil || len(program.Inst) > 3*maxInstructions {
			t.Errorf("%q: %d instructions, %v", text, len(program.Inst), err)
		}
	})
}

// Files that the keeper replaces are read in their order, and each byte once.
func TestAStreamFollowsReplacedFiles(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "stdout")
	spec := keeper.HelperSpec{Look: keeper.Look{Line: &keeper.LineLook{Pattern: "^wanted$", Streams: []string{"stdout"}}}, LogDirectory: dir}
	o, err := newOutput(spec)
	if err != nil {
		t.Fatal(err)
	}
	look := func(want bool) {
		t.Helper()
		if found, reason := o.look(t.Context()); found != want {
			t.Fatalf("%t, %s", found, reason)
		}
	}
	write := func(text string) {
		t.Helper()
		file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = file.WriteString(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
	}
	rotate := func() {
		t.Helper()
		if err := os.Rename(name, name+".1"); err != nil {
			t.Fatal(err)
		}
	}
	look(false) // there is no file yet
	write("first\nwan")
	look(false)
	write("ted no\nwan")
	rotate()
	look(false) // the next file is not there yet
	write("ted")
	look(false)
	look(true) // the line is at rest
	write("\n")
	look(true) // it is whole
	write(strings.Repeat("x\n", 100))
	look(false)
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	write("wanted\n")
	look(true)
	// A helper that starts now finds the last lines, of the file before, too.
	rotate()
	write("other\n")
	if o, err = newOutput(spec); err != nil {
		t.Fatal(err)
	}
	look(true)
}

func TestTheTimeBetweenTwoLooks(t *testing.T) {
	for _, test := range []struct{ waited, took, interval, want time.Duration }{
		{0, 0, time.Second, leastPause},
		{4 * time.Second, 0, time.Second, 500 * time.Millisecond},
		{time.Hour, 0, time.Second, time.Second},
		{time.Hour, 0, leastPause, leastPause},
		{0, 100 * time.Millisecond, time.Second, 3 * time.Second},
		{time.Hour, time.Hour, time.Second, time.Minute},
	} {
		if got := Pause(test.waited, test.took, test.interval); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}
