package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/credential"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// reported is what the invocation says of an error.
func reported(t *testing.T, c *cli, err error) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "stderr")
	file, openErr := os.Create(name)
	if openErr != nil {
		t.Fatal(openErr)
	}
	defer file.Close()
	c.err = file
	c.report(err)
	text, readErr := os.ReadFile(name)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return string(text)
}

func TestBeginnersHintIsForThoseWhoHaveSaidNothing(t *testing.T) {
	refused := connect.NewError(connect.CodeUnavailable, syscall.ECONNREFUSED)
	untrusted := connect.NewError(connect.CodeUnavailable, &credential.TrustError{Err: errors.New("unknown authority"), Advice: "want tls.ca"})
	for name, c := range map[string]struct {
		unsaid bool
		err    error
		hint   bool
	}{
		"default address":   {true, refused, true},
		"said":              {false, refused, false},
		"wrong CA":          {true, untrusted, false},
		"answered, says no": {true, connect.NewError(connect.CodePermissionDenied, errors.New("no")), false},
	} {
		if got := strings.Contains(reported(t, &cli{unsaid: c.unsaid}, c.err), "bursar dev"); got != c.hint {
			t.Errorf("%s: hint %v, want %v", name, got, c.hint)
		}
	}
}

func TestElectionIsNotSilence(t *testing.T) {
	away := member{url: "http://a:1", err: errors.New("refused")}
	standby := member{url: "http://b:1", status: &bursarv1.StatusResponse{LeaderUrl: "http://a:1"}}
	leader := member{url: "http://c:1", status: &bursarv1.StatusResponse{IsLeader: true}}
	for name, c := range map[string]struct {
		team []member
		want bool
	}{
		"one alone":          {nil, false},
		"nobody answers":     {[]member{away, away}, false},
		"the leader is away": {[]member{away, standby, standby}, true},
		"one leads":          {[]member{away, standby, leader}, false},
	} {
		if got := leaderless(c.team); got != c.want {
			t.Errorf("%s: leaderless %v, want %v", name, got, c.want)
		}
	}
	err := &leaderlessError{connect.NewError(connect.CodeUnavailable, syscall.ECONNREFUSED)}
	if got, want := reported(t, &cli{}, err), "bursar: nobody leads at the moment: try again in some seconds\n"; got != want {
		t.Errorf("reported %q, want %q", got, want)
	}
	told := &leaderlessError{connect.NewWireError(connect.CodeUnavailable, errors.New("the leader does not know this coordinator"))}
	if got, want := reported(t, &cli{}, told), "the server: the leader does not know this coordinator\nhint: none of those that answer leads"; !strings.Contains(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
	if got := exitCode(err); got != exitUnavailable {
		t.Errorf("exit code %d, want %d", got, exitUnavailable)
	}
}
