package keeper

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// mostLinks is how many symbolic links a path may lead through, as the kernel has it.
const mostLinks = 40

// fieldReadyCommand is that of a LaunchSpec.
const fieldReadyCommand = "ready.command.command[0]"

// checkUnchangeable refuses the program of an engine, and the command that checks its readiness, if
// this user can put another program at the path. Otherwise the path would not tell the agent which
// program is executed. Root and other users may change the program.
func checkUnchangeable(spec Spec, program string) error {
	if !spec.Unchangeable {
		return nil
	}
	if len(spec.Script) > 0 {
		return &refusal{FieldScript, "", "a program of engines.remote.programs", errors.New("is not a program of this host's list")}
	}
	programs := []string{program}
	if spec.Look != nil && len(spec.Look.Command) > 0 {
		found, err := find(spec.Look.Command[0], spec.Environment)
		if err != nil {
			return &refusal{fieldReadyCommand, spec.Look.Command[0], "an absolute path", err}
		}
		programs = append(programs, found)
	}
	for i, program := range programs {
		if err := unchangeable(program); err != nil {
			field := FieldCommand
			if i > 0 {
				field = fieldReadyCommand
			}
			if errno, ok := errors.AsType[unix.Errno](err); ok {
				return &refusal{field, program, "a program that is there, and that its user may execute", errno}
			}
			return &refusal{field, program, "a program that the engine's account cannot change, and neither any folder, link or interpreter that leads to it", err}
		}
	}
	return nil
}

// unchangeable refuses a program that this user can change, and a script with such an interpreter.
func unchangeable(program string) error {
	for range 2 * interpreters {
		if err := checkPath(program); err != nil {
			return err
		}
		head, err := headOf(program)
		if err != nil {
			return nil //nolint:nilerr // an interpreter could not read it either
		}
		next := interpreterOf(head)
		switch {
		case next == "":
			return nil
		case !path.IsAbs(next):
			return fmt.Errorf("its interpreter %q depends on the working directory, which the caller chooses", next)
		}
		program = next
	}
	return nil // the kernel executes no more of them
}

// checkPath refuses a path if this user can change its file, or any folder or link on the way to
// it.
func checkPath(name string) error {
	links := 0
	at, rest := "/", strings.Split(name, "/")
	if err := checkElement(at, false); err != nil {
		return err
	}
	for len(rest) > 0 {
		element := rest[0]
		rest = rest[1:]
		switch element {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at) // at is without links
			continue
		}
		next := path.Join(at, element)
		var stat unix.Stat_t
		if err := lstat(next, &stat); err != nil {
			return err // it may be there when the engine begins
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFLNK {
			if err := checkElement(next, true); err != nil {
				return err
			}
			at = next
			continue
		}
		if err := owned(next, &stat); err != nil { // the owner of a link in a sticky folder can replace it
			return err
		}
		var system unix.Statfs_t
		if unix.Statfs(at, &system) == nil && system.Type == unix.PROC_SUPER_MAGIC {
			return fmt.Errorf("%s leads each process to another file", next)
		}
		if links++; links > mostLinks {
			return unix.ELOOP
		}
		target, err := os.Readlink(next)
		if err != nil {
			return err //nolint:wrapcheck // names it
		}
		if path.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return nil
}

// checkElement refuses a file or a folder that this user can change. sub: it is below "/".
func checkElement(name string, sub bool) error {
	var stat unix.Stat_t
	if err := lstat(name, &stat); err != nil {
		return err
	}
	if err := owned(name, &stat); err != nil {
		return err
	}
	folder := stat.Mode&unix.S_IFMT == unix.S_IFDIR
	if folder && sub && stat.Mode&unix.S_ISVTX != 0 {
		return nil // its entries are replaced by their owners alone
	}
	// The kernel knows the user's groups, access lists, and file systems that are read-only.
	if unix.Access(name, unix.W_OK) == nil {
		return fmt.Errorf("%s can be written to by it", name)
	}
	return nil
}

// owned refuses a file, folder or link that belongs to this user, because its owner can change its
// mode.
func owned(name string, stat *unix.Stat_t) error {
	if int(stat.Uid) == os.Geteuid() {
		return fmt.Errorf("%s belongs to it", name)
	}
	return nil
}

func lstat(name string, stat *unix.Stat_t) error {
	for {
		if err := unix.Lstat(name, stat); !errors.Is(err, unix.EINTR) {
			return err //nolint:wrapcheck // the caller names the file
		}
	}
}
