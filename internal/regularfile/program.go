package regularfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// GuardedProgram rejects a program that anyone except root and uid could change or replace. Root or
// uid must own the file, its folder, every folder above it and every link on the way. No other user
// may write to them. A folder on the way may have the sticky bit instead, because it protects the
// entries of other owners. This does not apply to the program's own folder, where the program may
// look for its parts. The error is a *GuardError, reports that the path is no program, or reports a
// failed check.
func GuardedProgram(path string, uid uint32) error {
	return walk(path, func(at string, info fs.FileInfo, last bool) error {
		if err := guardedStep(at, info, uid, true); err != nil || !last {
			return err
		}
		if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			return fmt.Errorf("%s has mode %s: want a file that can be executed", at, info.Mode())
		}
		folder := filepath.Dir(at)
		info, err := os.Lstat(folder)
		if err != nil {
			return err //nolint:wrapcheck // names the path
		}
		return guardedStep(folder, info, uid, false)
	})
}

// guardedStep checks one step on the way to a program.
func guardedStep(path string, info fs.FileInfo, uid uint32, mayStick bool) error {
	owner, _ := Owners(info)
	mode := info.Mode()
	// Includes root's group: it may have other members. With an access control list, the group bits
	// are the upper bound of all entries.
	shared := mode.Perm()&0o022 != 0
	sticks := mayStick && mode.IsDir() && mode&fs.ModeSticky != 0
	switch {
	case owner != 0 && owner != uid && uid == 0:
		return &GuardError{path, owner, mode, "that it is root's: its owner could have another program run"}
	case owner != 0 && owner != uid:
		return &GuardError{path, owner, mode, fmt.Sprintf("that it is root's or of uid %d: its owner could have another program run", uid)}
	case mode.Type() != fs.ModeSymlink && shared && !sticks:
		return &GuardError{path, owner, mode, "that neither its group nor others may write to it: they could have another program run"}
	}
	return nil
}
