package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/bursar/bursar/test/proc"
)

func TestAgentTellsItsServiceManager(t *testing.T) {
	dir, sockets := t.TempDir(), folderOfSockets(t)
	free := proc.Address(t)
	file := filepath.Join(dir, "agent.yaml")
	config := "hostId: vm-one\ntick: 200ms\nsocket: " + sockets + "/agent.sock\nstateDir: " + dir + "/state\ncoordinators: [http://" + free + "]\n"
	writeConfig(t, file, config)
	s := startService(t, []string{"WATCHDOG_USEC=400000"}, nil, "agent", "--config", file)

	// Without a coordinator it is ready too, and says what is missing.
	if ready := s.told.until("READY=1"); ready != "READY=1\nSTATUS=no coordinator has answered yet: requests wait; engines: 0" {
		t.Errorf("%q", ready)
	}
	for range 5 {
		s.told.until("WATCHDOG=1")
	}
	books := startService(t, []string{"WATCHDOG_USEC=400000"}, nil, "coordinator", "--listen", free, "--data-dir", dir+"/books")
	books.told.until("READY=1\nSTATUS=leads")
	s.told.until("STATUS=a coordinator answers; engines: 0")
	books.told.until("WATCHDOG=1")

	// A reload.
	writeConfig(t, file, config+"labels: {zone: a}\nlogLevel: debug\n")
	s.signal(syscall.SIGHUP)
	if told := s.told.until("RELOADING=1"); !regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=\d+\n$`).MatchString(told) {
		t.Errorf("%q", told)
	}
	s.told.until("READY=1")
	s.logged.until(`"msg":"reloaded","changed":["labels","logLevel"]`)
	for {
		if out, _ := command(t, "hosts", "vm-one", "--addr", free); strings.Contains(out, "zone=a") {
			break
		}
		s.told.until("WATCHDOG=1")
	}

	books.signal(syscall.SIGHUP)
	books.told.until("RELOADING=1")
	books.told.until("READY=1")
	books.logged.until(`"msg":"reloaded: the configuration is as it was`)
	books.stops()
	books.told.until("STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=15000000")
	s.told.until("STATUS=no coordinator answers since ")
	s.told.until("WATCHDOG=1") // that one is away is no hang
	s.stops()
	s.told.until("STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=20000000")
}

func TestBadFileChangesNothing(t *testing.T) {
	dir, sockets := t.TempDir(), folderOfSockets(t)
	file, quotas, books := filepath.Join(dir, "agent.yaml"), filepath.Join(dir, "quotas.yaml"), filepath.Join(dir, "coordinator.yaml")
	config := "tick: 200ms\nsocket: " + sockets + "/agent.sock\nstateDir: " + dir + "/state\ncoordinators: [\"http://127.0.0.1:1\"]\n"
	writeConfig(t, file, config)
	s := startService(t, nil, nil, "agent", "--config", file)
	s.told.until("READY=1")
	for text, want := range map[string]string{
		config + "hostid: x\n":                   file + ":5:1: hostid: unknown field",
		config + "callers: {rate: -1}\n":         file + ":5:17: callers.rate: ",
		config + "labels: {zone: a}\nlabels: {}": file + ":6:1: ",
	} {
		writeConfig(t, file, text)
		s.signal(syscall.SIGHUP)
		s.told.until("RELOADING=1")
		s.told.until("READY=1")
		if line := s.logged.until(`"level":"ERROR"`); !strings.Contains(line, want) || !strings.Contains(line, "was not reloaded") {
			t.Errorf("%s: no %s", line, want)
		}
	}
	writeConfig(t, file, config+"hostId: other\npatience: 3s\n")
	s.signal(syscall.SIGHUP)
	if line := s.logged.until(`"msg":"reloaded"`); !strings.Contains(line, `"changed":["patience"]`) {
		t.Error(line)
	}
	if line := s.logged.until(`"level":"WARN"`); !strings.Contains(line, `"fields":["hostId"]`) {
		t.Error(line)
	}
	s.stops()

	writeConfig(t, quotas, "quotas:\n- selector: {user: alice}\n  limit: {memory: 1GiB}\n")
	writeConfig(t, books, "listen: 127.0.0.1:0\ndataDir: "+dir+"/books\nquotaFiles: ["+quotas+"]\n")
	s = startService(t, nil, nil, "coordinator", "--config", books)
	s.told.until("READY=1")
	writeConfig(t, quotas, "quotas:\n- selector: {user: alice}\n  limit: {memory: lots}\n")
	s.signal(syscall.SIGHUP)
	s.told.until("READY=1")
	if line := s.logged.until("was not reloaded"); !strings.Contains(line, quotas+":3:19: ") {
		t.Error(line)
	}
	s.stops()
}

func TestServersWriteForTheJournalWhereItReads(t *testing.T) {
	dir := t.TempDir()
	s := startService(t, []string{"JOURNAL_STREAM=this"}, nil, "coordinator", "--listen", "127.0.0.1:0", "--data-dir", dir)
	if line := s.logged.until("msg=serving"); !strings.HasPrefix(line, "<6>msg=serving address=127.0.0.1:") || strings.Contains(line, "time=") {
		t.Errorf("%q", line)
	}
	s.stops()
}

// TestWhatKeepsAServerFromStartingIsAnErrorInTheJournal: `journalctl -p err` says the reason, not
// only that the start failed.
func TestWhatKeepsAServerFromStartingIsAnErrorInTheJournal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte("engines:\n  polices: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startService(t, []string{"JOURNAL_STREAM=this"}, nil, "agent", "--config", file, "--check")
	<-s.ended
	lines := 0
	for line := range s.logged.lines {
		if lines++; !strings.HasPrefix(line, "<3>") {
			t.Errorf("%q", line)
		}
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 78 || lines < 3 {
		t.Errorf("exit code %d, %d lines, want 78 and the excerpt of the file", code, lines)
	}
}
