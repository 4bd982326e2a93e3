package requests

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
)

func TestTheLineOfAWaitMovesTheCursorToItsBeginningAlone(t *testing.T) {
	// It does to a terminal what it can: the title, colours, the order of characters, a new line.
	const attack = "a\x1b]0;title\x07\x1b[31m\u009b32m\u202eb\r\nforged\x7f\u2028\u2066c"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text, _ := json.Marshal(map[string]string{"code": "unavailable", "message": "released (" + attack + ")"})
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write(text)
	}))
	t.Cleanup(server.Close)
	cl, err := client.New(server.URL, client.WithoutRetries())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	file, err := os.CreateTemp(t.TempDir(), "err")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	c := failure.NewReporter(render.NewPrinter(nil, file))
	c.Asked = cl
	ctx, cancel := context.WithTimeout(t.Context(), 5*waitUnseen/2) // two readings
	defer cancel()
	(&waitLine{say: c, client: cl, requestID: "r", live: true}).follow(ctx)
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	line := strings.TrimPrefix(string(text), "\r\033[K")
	if !strings.Contains(line, "forged") || render.Printable(line) != line {
		t.Errorf("%q", line)
	}
}

func TestAgesDoNotMakeNews(t *testing.T) {
	a, b := withoutAges("waiting: unknown: last read 41s ago: no answer; 2m left"), withoutAges("waiting: unknown: last read 43s ago: no answer; 2m left")
	if a != b || !strings.Contains(a, "no answer") {
		t.Errorf("%q and %q", a, b)
	}
	if withoutAges("lacks 3GiB") == withoutAges("lacks 2GiB") {
		t.Error("what is no age is left out")
	}
}
