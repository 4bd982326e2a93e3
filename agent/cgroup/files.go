package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// Files gives access to the kernel's files of cgroups. Tests replace the kernel behind it.
type Files interface {
	Read(name string) ([]byte, error)
	// Write writes to an existing file in one call, as the kernel requires.
	Write(name, content string) error
	// Mkdir makes a cgroup. Rmdir removes a cgroup without processes and children.
	Mkdir(name string) error
	Rmdir(name string) error
	// Folders lists the names of the folders in a folder.
	Folders(name string) ([]string, error)
	// Owner returns the user and the mode of a file or folder.
	Owner(name string) (uid, mode uint32, err error)
}

type kernel struct{}

func (kernel) Read(name string) ([]byte, error) {
	return os.ReadFile(name) //nolint:gosec,wrapcheck // below a mount of cgroups; the error names it
}

func (kernel) Write(name, content string) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0) //nolint:gosec // below a mount of cgroups
	if err != nil {
		return err //nolint:wrapcheck // it names the file
	}
	_, err = file.WriteString(content)
	return errors.Join(err, file.Close())
}

// Mkdir makes a cgroup that every user can read, like the kernel's own: a Java engine reads its
// memory limit there. The agent's umask must not prevent that.
func (kernel) Mkdir(name string) error {
	if err := os.Mkdir(name, 0o755); err != nil { //nolint:gosec // see above
		return err //nolint:wrapcheck // names the cgroup
	}
	return os.Chmod(name, 0o755) //nolint:gosec,wrapcheck // see above; the error names the cgroup
}

func (kernel) Rmdir(name string) error {
	if err := syscall.Rmdir(name); err != nil { // os.Remove would try to unlink it first
		return &fs.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

func (kernel) Folders(name string) ([]string, error) {
	return cgroupfs.Children(name) //nolint:wrapcheck // it names the folder
}

func (kernel) Owner(name string) (uid, mode uint32, err error) {
	var stat unix.Stat_t
	if err := unix.Stat(name, &stat); err != nil {
		return 0, 0, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return stat.Uid, stat.Mode, nil
}

// ensure makes a cgroup unless it exists.
func ensure(files Files, name string) error {
	if err := files.Mkdir(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making a cgroup: %w", err)
	}
	return nil
}
