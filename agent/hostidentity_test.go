package agent_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/agent/statefile"
)

// renamed leaves a state of a host that had another name, as a machine has it that was renamed.
func renamed(t *testing.T, s *subject, was string) {
	t.Helper()
	dir, err := statefile.Open(s.config.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	left := statefile.State{HostID: was}
	left.BootID = "some-boot"
	if err := dir.Save(left); err != nil {
		t.Fatal(err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestADefaultHostIDStaysWhenTheMachineGetsAnotherName(t *testing.T) {
	s := newSubject(t)
	s.config.HostID = ""
	renamed(t, s, "localhost-was")
	s.start()
	if got := s.coordinator.registration().GetHostId(); got != "localhost-was" {
		t.Errorf("the host registers as %q, not by its id from the state file", got)
	}
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	want := "its machine is named " + own + " now; the host keeps its id, localhost-was,"
	if notes := strings.Join(s.config.Notes(), "\n"); !strings.Contains(notes, want) {
		t.Errorf("--check says %q; want %q", notes, want)
	}
	until(t, "the host has a note", func() bool { return strings.Contains(strings.Join(s.coordinator.notes(), "\n"), want) })
	changes, err := s.agent.Reload(s.config)
	if err != nil || len(changes.Kept) > 0 {
		t.Errorf("a reload finds changes: %+v, %v", changes, err)
	}
}

func TestAConfiguredHostIDWins(t *testing.T) {
	s := newSubject(t)
	renamed(t, s, "localhost-was")
	s.start()
	if got := s.coordinator.registration().GetHostId(); got != "h1" {
		t.Errorf("the host registers as %q; want h1", got)
	}
	if notes := s.config.Notes(); strings.Contains(strings.Join(notes, ""), "keeps its id") {
		t.Errorf("%q", notes)
	}
}

// What does for no host id does for no default either, if the state file has one.
func TestAHostIDOfTheStateFileNeedsNoGoodMachineName(t *testing.T) {
	s := newSubject(t)
	renamed(t, s, "h9")
	config := agent.Config{StateDir: s.config.StateDir}
	if got, err := config.WithDefaults(); err != nil || got.HostID != "" {
		t.Errorf("%q, %v; want a default that is still known to be one", got.HostID, err)
	}
}

func TestAnIdentityTokenIsShownAndRenewed(t *testing.T) {
	s := newSubject(t)
	file := filepath.Join(s.config.StateDir, "state.identity")
	for i, shows := range [][]byte{nil, []byte("token one"), []byte("token two"), []byte("token three")} {
		gives := [][]byte{[]byte("token one"), []byte("token two"), []byte("token three"), nil}[i]
		s.coordinator.do(func() { s.coordinator.gives, s.coordinator.host = gives, nil })
		s.start()
		if got := s.coordinator.registration().GetIdentityToken(); !bytes.Equal(got, shows) {
			t.Errorf("start %d: it shows %q; want %q", i, got, shows)
		}
		s.stop()
		want := gives
		if gives == nil { // an older coordinator gives none
			want = shows
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("start %d: it keeps %q, %v; want %q", i, got, err, want)
		}
	}
}
