package callers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"connectrpc.com/connect"
)

// A caller is told the coordinator's address and the system's word, without the libraries' words
// around them.
func TestNoAnswerSaysWhomAndWhyInFewWords(t *testing.T) {
	refused := &net.OpError{
		Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
	}
	err := noAnswer(connect.NewError(connect.CodeUnavailable, fmt.Errorf("post: %w", refused)))
	if got, want := err.Error(), "unavailable: no coordinator answers: 127.0.0.1:7070: connection refused"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error("the cause is lost")
	}
	if got, want := noAnswer(errors.New("other")).Error(), "unavailable: no coordinator answers: other"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}
