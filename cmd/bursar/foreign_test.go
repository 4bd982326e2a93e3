package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
)

// A web server that is none of ours is named, with what it answers, and the code is that of a
// server that is not there.
func TestAnotherWebServerIsNoCoordinator(t *testing.T) {
	t.Parallel()
	for want, handler := range map[string]http.HandlerFunc{
		"404 Not Found":        http.NotFound,
		"invalid content-type": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>welcome</html>")) },
	} {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
		if err != nil {
			t.Fatal(err)
		}
		code := execute(t.Context(), []string{"hosts", "--addr", server.URL}, cmdline.Streams{In: os.Stdin, Out: stderr, Err: stderr})
		said, err := os.ReadFile(stderr.Name())
		if err != nil {
			t.Fatal(err)
		}
		if begin := "bursar: " + server.URL + " answers, but it is no coordinator, or one that is too old for this command: " + want; code != failure.ExitUnavailable || !strings.HasPrefix(string(said), begin) {
			t.Errorf("code %d, %s; want %d and %s", code, said, failure.ExitUnavailable, begin)
		}
	}
}
