package failure

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/yamlfile"
)

// Labels and reasons come from others; a terminal must not act on them.
func TestTextOfOthersCannotMoveTheCursor(t *testing.T) {
	const hostile, harmless = "a\x1b[2Jb\rc\u009bd\ne\u202ef€", "a?[2Jb?c?d?e?f€"
	if got := render.Printable(hostile); got != harmless {
		t.Errorf("printed %q", got)
	}
	_, file := yamlfile.Parse("x.yaml", []byte("a: [\x1b[31m\u009b\u202e"))
	for name, err := range map[string]error{
		"a store that is half copied": Config(store.RefuseUnfinished("/data", hostile)),
		"a file":                      Config(file),
		"a server's answer":           connect.NewError(connect.CodeNotFound, errors.New("no such queue: "+hostile)),
		"a usage":                     Usagef("%s: want something else", hostile),
	} {
		text := reported(t, new(Reporter), err) + strings.Join(strings.Fields(fmt.Sprintf("%s %v", render.Printables([]any{hostile, err})...)), " ")
		if got := strings.ReplaceAll(text, "\n", ""); got == "" || render.Printable(got) != got {
			t.Errorf("%s: printed %q", name, got)
		}
	}
}
