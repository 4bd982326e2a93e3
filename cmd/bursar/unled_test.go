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

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// leaderTime is how long status waits for the answer of a leader.
const leaderTime = 5 * time.Second

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
	code, took, stdout, stderr := statusOf(t, unled{})
	if code == 0 || took > (leaderTime+servers.PresentPatience)/2 {
		t.Errorf("exit code %d after %s; want a failure after %s", code, took, leaderTime)
	}
	for _, want := range []string{"waits for a leader", "v9", "the disk is full"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in %q", want, stdout)
		}
	}
	if !strings.Contains(stderr, "none of those that answer leads") {
		t.Errorf("it says %q", stderr)
	}
}

// late is a coordinator that leads as soon as it is asked for itself.
type late struct {
	bursarv1connect.UnimplementedClusterServiceHandler
}

func (late) Status(_ context.Context, q *bursarv1.StatusRequest) (*bursarv1.StatusResponse, error) {
	if !q.GetAllowStale() {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("no coordinator leads"))
	}
	return &bursarv1.StatusResponse{Version: "v9", IsLeader: true, Leader: "here", HostsHealthy: 17}, nil
}

// The last attempt may have been before a leader was elected.
func TestStatusIsThatOfALeaderThatCameLate(t *testing.T) {
	t.Parallel()
	code, _, stdout, stderr := statusOf(t, late{})
	if code != 0 || !strings.Contains(stdout, "17 healthy") || strings.Contains(stderr, "nobody answers") {
		t.Errorf("exit code %d, prints %q and says %q", code, stdout, stderr)
	}
}

// statusOf runs status against a coordinator alone.
func statusOf(t *testing.T, coordinator bursarv1connect.ClusterServiceHandler) (code int, took time.Duration, stdout, stderr string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewClusterServiceHandler(coordinator))
	server := httptest.NewServer(mux)
	defer server.Close()
	dir := t.TempDir()
	var files [2]*os.File
	for i, name := range []string{"out", "err"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	began := time.Now()
	code = execute(t.Context(), []string{"status", "--addr", server.URL}, cmdline.Streams{In: os.Stdin, Out: files[0], Err: files[1]})
	took = time.Since(began)
	var texts [2]string
	for i, f := range files {
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	return code, took, texts[0], texts[1]
}
