package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/failure"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// systemSocketFile does what a service manager does: it makes the socket, and keeps it open after
// it has passed it on.
func systemSocketFile(t *testing.T, path string) *os.File {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	file, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = file.Close()
		_ = listener.Close()
	})
	return file
}

// A caller that calls while no agent runs is answered when there is one: across a start, and
// across a restart.
func TestCallsWaitAtTheSocketOfTheServiceManager(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(folderOfSockets(t), "agent.sock")
	file := systemSocketFile(t, path)
	books := startService(t, nil, nil, "coordinator", "--listen", "127.0.0.1:0", "--data-dir", dir+"/books")
	address := books.address()
	for range 2 {
		cl, err := client.New("unix:" + path)
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, 1)
		go func() {
			_, err := cl.Allocations().Allocate(context.Background(), &bursarv1.AllocateRequest{
				Labels: map[string]string{"user": "alice"}, Resource: &bursarv1.Resource{MemoryBytes: new(int64(1 << 20))},
			})
			answered <- err
		}()
		s := startService(t, []string{"LISTEN_FDNAMES=agent.sock"}, []*os.File{file}, "agent", "--socket", path, "--state-dir", dir+"/state", "--coordinator", "http://"+address)
		if err := <-answered; err != nil {
			t.Error(err)
		}
		cl.Close()
		s.stops()
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("the socket is the service manager's: %v, %v", info, err)
		}
	}
}

func TestSocketOfTheServiceManagerIsServedInPlaceOfItsOwn(t *testing.T) {
	dir, sockets := t.TempDir(), folderOfSockets(t)
	path := filepath.Join(sockets, "given.sock")
	file := systemSocketFile(t, path)
	other, err := os.CreateTemp(dir, "other")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	own := filepath.Join(sockets, "own.sock")
	s := startService(t, []string{"LISTEN_FDNAMES=data:agent.sock"}, []*os.File{other, file}, "agent", "--socket", own, "--state-dir", dir+"/state")
	line := s.logged.until("the socket that the service manager has opened is served")
	if !strings.Contains(line, path) || !strings.Contains(line, own) || !strings.Contains(line, `"level":"WARN"`) {
		t.Error(line)
	}
	s.told.until("READY=1")
	if _, err := os.Stat(own); err == nil {
		t.Error("it has made a socket of its own, too")
	}
	s.stops()
}

func TestWhatIsNoSocketIsRefused(t *testing.T) {
	dir := t.TempDir()
	plain, err := os.CreateTemp(dir, "file")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	tcpFile, err := tcp.File()
	if err != nil {
		t.Fatal(err)
	}
	defer tcpFile.Close()
	datagrams, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(folderOfSockets(t), "d"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	datagramFile, err := datagrams.File()
	if err != nil {
		t.Fatal(err)
	}
	defer datagramFile.Close()
	for name, test := range map[string]struct {
		files []*os.File
		want  string
	}{
		"a file":             {[]*os.File{plain}, "want a Unix stream socket that listens"},
		"a socket of TCP":    {[]*os.File{tcpFile}, "want a Unix stream socket that listens"},
		"datagrams":          {[]*os.File{datagramFile}, "want a Unix stream socket that listens"},
		"several, of no use": {[]*os.File{plain, tcpFile}, "passes on 2 sockets: want one, or one with FileDescriptorName=agent.sock"},
	} {
		s := startService(t, nil, test.files, "agent", "--state-dir", dir+"/state", "--socket", dir+"/a.sock")
		if said := s.fails(failure.ExitConfig); !strings.Contains(said, test.want) {
			t.Errorf("%s: %s", name, said)
		}
	}
}
