package coordinator

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// noteWriter notes what is written and flushed.
type noteWriter struct {
	http.ResponseWriter

	did []string
	err error
}

func (w *noteWriter) Write(p []byte) (int, error) {
	text := string(p)
	if len(text) > 20 {
		text = text[:3] + "…"
	}
	w.did = append(w.did, text)
	return len(p), w.err
}

func (w *noteWriter) Flush() { w.did = append(w.did, "flush") }

// A message is written as Connect does it: its head, its text, and a flush.
func writeMessage(w http.ResponseWriter, head, text string) error {
	_, err := w.Write([]byte(head))
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
	return err
}

func TestABatchIsWrittenAndFlushedInOnePiece(t *testing.T) {
	failed := errors.New("the reader has gone")
	for name, c := range map[string]struct {
		texts []string
		err   error
		want  []string
	}{
		"a few":                  {[]string{"one", "two"}, nil, []string{"<0>", "beat", "flush", "<0>one<1>two", "flush", "<0>", "beat", "flush"}},
		"nothing":                {nil, nil, []string{"<0>", "beat", "flush", "flush", "<0>", "beat", "flush"}},
		"more than is held":      {[]string{"one", strings.Repeat("x", batchBytes-1), "two"}, nil, []string{"<0>", "beat", "flush", "<0>one<1>", "xxx…", "<2>two", "flush", "<0>", "beat", "flush"}},
		"a larger one":           {[]string{"one", strings.Repeat("x", 2*batchBytes), "two"}, nil, []string{"<0>", "beat", "flush", "<0>one<1>", "xxx…", "<2>two", "flush", "<0>", "beat", "flush"}},
		"a reader that has gone": {[]string{strings.Repeat("x", batchBytes-1), strings.Repeat("x", batchBytes-1)}, failed, []string{"<0>", "flush", "<0>", "flush", "<0>", "flush"}},
	} {
		t.Run(name, func(t *testing.T) {
			under := &noteWriter{ResponseWriter: httptest.NewRecorder(), err: c.err}
			withBatches(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = writeMessage(w, "<0>", "beat")
				err := sendTogether(r.Context(), func() error {
					for i, text := range c.texts {
						if err := writeMessage(w, "<"+string(rune('0'+i))+">", text); err != nil {
							return err
						}
					}
					return nil
				})
				if !errors.Is(err, c.err) {
					t.Errorf("got %v; want %v", err, c.err)
				}
				_ = writeMessage(w, "<0>", "beat")
			})).ServeHTTP(under, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
			if diff := cmp.Diff(c.want, under.did); diff != "" {
				t.Error(diff)
			}
		})
	}
	sent := false
	if err := sendTogether(context.Background(), func() error { sent = true; return failed }); !sent || !errors.Is(err, failed) {
		t.Errorf("without a writer: %v, %v", sent, err)
	}
}
