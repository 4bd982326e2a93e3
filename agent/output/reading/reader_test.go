package reading

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// plant makes a folder with log files, the oldest first, and their offsets, in which INODEi is that
// of the i-th file. Empty offsets: there are none.
func plant(tb rapid.TB, dir, offsets string, files ...string) {
	tb.Helper()
	for i, content := range files {
		name := filepath.Join(dir, "stdout")
		if older := len(files) - 1 - i; older > 0 {
			name += "." + strconv.Itoa(older)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			tb.Fatal(err)
		}
		var stat unix.Stat_t
		if err := unix.Stat(name, &stat); err != nil {
			tb.Fatal(err)
		}
		offsets = strings.ReplaceAll(offsets, "INODE"+strconv.Itoa(i), strconv.FormatUint(stat.Ino, 10))
	}
	if offsets == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, ".stdout.offsets"), []byte(offsets), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// all reads to the end. Gaps are "[FROM-TO]".
func all(tb rapid.TB, r *Reader) string {
	tb.Helper()
	var text strings.Builder
	buffer := make([]byte, 100)
	for {
		part, err := r.Next(buffer)
		switch {
		case errors.Is(err, io.EOF):
			return text.String()
		case err != nil:
			tb.Fatal(err)
		case len(part.Data) == 0:
			fmt.Fprintf(&text, "[%d-%d]", part.Offset, part.To)
		}
		text.Write(part.Data)
	}
}

func open(tb rapid.TB, r Request) *Reader {
	tb.Helper()
	reader, err := Open(r)
	if err != nil {
		tb.Fatal(err)
	}
	return reader
}

func TestWhereReadingBegins(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, "bursar-offsets 1 a1 3\nf INODE0 0 100 0\nj INODE0 4 204 0\nf INODE1 2 208 0\ne 0 0 220 0\n", "a\nb\nc\nd\n", "??e\nf\n")
	const whole = "[0-100]a\nb\n[104-204]c\nd\ne\nf\n[212-220]"
	for name, test := range map[string]struct {
		r    Request
		want string
	}{
		"the start":     {Request{}, whole},
		"in a gap":      {Request{From: 50}, "[50-100]" + whole[7:]},
		"in a file":     {Request{From: 102}, whole[9:]},
		"in a jump":     {Request{From: 110}, "[110-204]c\nd\ne\nf\n[212-220]"},
		"at a file":     {Request{From: 208}, "e\nf\n[212-220]"},
		"the end":       {Request{From: 220}, ""},
		"behind":        {Request{From: 221}, ""},
		"lines":         {Request{TailLines: 1}, "f\n[212-220]"},
		"more lines":    {Request{TailLines: 3}, "d\ne\nf\n[212-220]"},
		"over a gap":    {Request{TailLines: 5}, "b\n[104-204]c\nd\ne\nf\n[212-220]"},
		"all lines":     {Request{TailLines: 100}, whole[7:]},
		"bytes":         {Request{TailBytes: 10}, "f\n[212-220]"},
		"all bytes":     {Request{TailBytes: 1 << 60}, whole},
		"the latest of": {Request{From: 206, TailLines: 5}, "d\ne\nf\n[212-220]"},
	} {
		for _, follow := range []bool{false, true} {
			test.r.ID, test.r.Folder, test.r.Stream, test.r.Follow = "a1", dir, Stdout, follow
			r := open(t, test.r)
			if got := all(t, r); got != test.want {
				t.Errorf("%s: %q: want %q", name, got, test.want)
			}
			r.Close()
		}
	}
}

// The last lines are those that a plain look at all bytes finds.
func TestTheLastLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "tail") //nolint:usetesting // one for each run
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		files := rapid.SliceOfN(rapid.StringMatching(`[a\n]{0,20}`), 1, 4).Draw(t, "files")
		index, offset := "bursar-offsets 1 a1 3\n", 0
		for i, file := range files {
			index += fmt.Sprintf("f INODE%d 0 %d 0\n", i, offset)
			offset += len(file)
		}
		if rapid.Bool().Draw(t, "without offsets") {
			index = ""
		}
		plant(t, dir, index, files...)
		lines := rapid.IntRange(1, 12).Draw(t, "lines")
		text := strings.Join(files, "")
		want := strings.SplitAfter(text, "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		want = want[max(0, len(want)-lines):]
		r := open(t, Request{ID: "a1", Folder: dir, Stream: Stdout, TailLines: lines})
		defer r.Close()
		if got := all(t, r); got != strings.Join(want, "") {
			t.Fatalf("%q: want %q", got, want)
		}
	})
}

// served is what Serve sends for a line and what follows it.
func served(t *testing.T, said string) []byte {
	t.Helper()
	in, agent, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, helper, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		Serve(int(in.Fd()), int(helper.Fd()))
		_ = helper.Close()
	}()
	go func() {
		_, _ = agent.WriteString(said)
		_ = agent.Close()
	}()
	got, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	return got
}

func TestServe(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, "", "hello\n")
	line, err := json.Marshal(Request{ID: "a1", Folder: dir, Stream: Stdout})
	if err != nil {
		t.Fatal(err)
	}
	frame := func(kind FrameKind, a, b int64) []byte {
		p := make([]byte, HeaderSize)
		PutHeader(p, kind, a, b)
		return p
	}
	want := bytes.Join([][]byte{frame(FrameStart, 0, 0), frame(FrameData, 0, 6), []byte("hello\n"), frame(FrameEnd, 6, 0)}, nil)
	if got := served(t, string(line)+"\n"); !bytes.Equal(got, want) {
		t.Errorf("%q: want %q", got, want)
	}
	follow := strings.TrimSuffix(string(line), "}") + `,"follow":true}` + "\n"
	if got := served(t, follow+"?E"); !bytes.HasSuffix(got, frame(FrameEnd, 6, 0)) {
		t.Errorf("the engine has ended: %q", got)
	}
	if got := served(t, follow); bytes.HasSuffix(got, frame(FrameEnd, 6, 0)) || !bytes.Contains(got, []byte("hello\n")) {
		t.Errorf("the agent has ended: %q", got)
	}
	for name, said := range map[string]string{
		"no JSON": "x\n", "a field": `{"id":"a","shell":"x"}` + "\n", "a stream": `{"id":"a","folder":"/","stream":"../x"}` + "\n",
		"no end": strings.Repeat("x", MaxRequest), "a far offset": `{"id":"a","folder":"/","stream":"stdout","from":9223372036854775807}` + "\n",
	} {
		got := served(t, said)
		if kind, code, _ := Header(append(got, frame(0, 0, 0)...)); kind != FrameError || Code(code) != Invalid {
			t.Errorf("%s: %q", name, got)
		}
	}
	for name, said := range map[string]string{"nothing": "", "half a line": "{"} {
		if got := served(t, said); len(got) > 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
}
