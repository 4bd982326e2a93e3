package agent_test

import (
	"os"
	"path/filepath"
	"testing"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A file that looks like a program is refused by the kernel alone, once the engine is confirmed.
// The caller hears what is wrong all the same, and the allocation ends.
func TestAProgramThatOnlyTheKernelRefusesIsNamed(t *testing.T) {
	s := launcher(t)
	program := filepath.Join(folder(t), "program")
	if err := os.WriteFile(program, []byte("\x7fELF, but no more"), 0o755); err != nil {
		t.Fatal(err)
	}
	a := s.allocate(10)
	_, err := s.launchAgain(&bursarv1.LaunchRequest{Id: a.GetId(), Command: []string{program}, WorkingDirectory: "/"})
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Fatalf("%v; want INVALID_ARGUMENT", err)
	}
	if got := field(err); got != "command[0]" {
		t.Errorf("field %q; want command[0]", got)
	}
	s.coordinator.awaitState(a.GetId(), released)
	until(t, "the keeper has ended", func() bool { return s.keeperOf(a.GetId()) == 0 })
}

// What is seen in the file is refused before the engine is confirmed: its reservation stays, for
// another try.
func TestAScriptWithoutItsInterpreterIsRefusedBeforeItIsConfirmed(t *testing.T) {
	s := launcher(t)
	program := filepath.Join(folder(t), "script")
	if err := os.WriteFile(program, []byte("#!/none/such\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	a := s.allocate(10)
	_, err := s.launchAgain(&bursarv1.LaunchRequest{Id: a.GetId(), Command: []string{program}, WorkingDirectory: "/"})
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Fatalf("%v; want INVALID_ARGUMENT", err)
	}
	if _, err := s.launchAgain(&bursarv1.LaunchRequest{Id: a.GetId(), Command: []string{"sleep", "1000"}, WorkingDirectory: "/"}); err != nil {
		t.Errorf("the reservation is gone: %v", err)
	}
}
