package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/yamlfile"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Labels and reasons come from others; a terminal must not act on them.
func TestTextOfOthersCannotMoveTheCursor(t *testing.T) {
	const hostile, harmless = "a\x1b[2Jb\rc\u009bd\ne\u202ef€", "a?[2Jb?c?d?e?f€"
	if got := render.Printable(hostile); got != harmless {
		t.Errorf("printed %q", got)
	}
	_, file := yamlfile.Parse("x.yaml", []byte("a: [\x1b[31m\u009b\u202e"))
	for name, err := range map[string]error{
		"a store that is half copied": configError(store.RefuseUnfinished("/data", hostile)),
		"a file":                      configError(file),
		"a server's answer":           connect.NewError(connect.CodeNotFound, errors.New("no such queue: "+hostile)),
		"a usage":                     usagef("%s: want something else", hostile),
	} {
		c := newCLI(streams{})
		text := reported(t, c.reporter, err) + strings.Join(strings.Fields(fmt.Sprintf("%s %v", render.Printables([]any{hostile, err})...)), " ")
		if got := strings.ReplaceAll(text, "\n", ""); got == "" || render.Printable(got) != got {
			t.Errorf("%s: printed %q", name, got)
		}
	}
}

func TestRulesThatAreTooManyToListAreCounted(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c := newCLI(streams{out: out})
	printApplied(c.Printer, &bursarv1.ApplyResponse{
		Changed: []*bursarv1.Quota{{Selector: map[string]string{"user": "alice"}}}, MoreChanged: 2, MoreDeleted: 30, Unchanged: 4,
	}, false)
	got, err := os.ReadFile(out.Name())
	want := "changed  user=alice\nchanged  2 more, which are too many to list\ndeleted  30 more, which are too many to list\n0 added, 3 changed, 30 deleted, 4 unchanged\n"
	if err != nil || string(got) != want {
		t.Errorf("%v, printed\n%s\nwant\n%s", err, got, want)
	}
}
