package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// unled is a coordinator alone that does not lead, because its store is away.
type unled struct {
	bursarv1connect.UnimplementedClusterServiceHandler
}

func (unled) Status(_ context.Context, q *bursarv1.StatusRequest) (*bursarv1.StatusResponse, error) {
	if !q.GetAllowStale() {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("no coordinator leads"))
	}
	return &bursarv1.StatusResponse{Version: "v9", Warnings: []string{"this coordinator does not lead: the disk is full"}}, nil
}

// Who asks for the status while nobody leads is told why, and need not wait as a caller does whose
// work depends on the answer.
func TestStatusWhileNobodyLeadsSaysWhy(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewClusterServiceHandler(unled{}))
	server := httptest.NewServer(mux)
	defer server.Close()
	var files [2]*os.File
	for i, name := range []string{"out", "err"} {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	began := time.Now()
	code := execute(t.Context(), []string{"status", "--addr", server.URL}, streams{os.Stdin, files[0], files[1]})
	if took := time.Since(began); code == 0 || took > (leaderPatience+presentPatience)/2 {
		t.Errorf("exit code %d after %s; want a failure after %s", code, took, leaderPatience)
	}
	for i, want := range [][]string{{"waits for a leader", "v9", "the disk is full"}, {"none of those that answer leads"}} {
		text, err := os.ReadFile(files[i].Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: %q is missing in %q", filepath.Base(files[i].Name()), part, text)
			}
		}
	}
}
