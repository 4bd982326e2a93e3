package socket

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func refuse(field, value, want string) error {
	return fmt.Errorf("%s: %q: want %s", field, value, want)
}

// The owner of the socket's folder replaces the socket by a link before its mode is set: the target
// of the link keeps its mode.
func TestModeIsSetOfTheSocketAlone(t *testing.T) {
	dir := t.TempDir()
	secret, link, socket := filepath.Join(dir, "secret"), filepath.Join(dir, "link"), filepath.Join(dir, "socket")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, secret} {
		if err := setAccess(path, 0o666, "", refuse); err == nil {
			t.Errorf("%s was given to everybody", path)
		}
	}
	if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := setAccess(socket, 0o662, "", refuse); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o662 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
