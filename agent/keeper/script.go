package keeper

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// scriptFile is the descriptor by which an engine has its script. The kernel gives an interpreter
// the path of it, so it stays open. It is far from the small numbers that shells redirect.
const scriptFile = 97

// ScriptName is the name that a script has for itself if it is no text: the kernel gives a text the
// path.
const ScriptName = "script"

// scriptPath is the script's path in the engine's process.
var scriptPath = pathOfFile(scriptFile) //nolint:gochecknoglobals // it never changes

func pathOfFile(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// newScript makes a file in memory that has the script, is in no folder, and can be changed by
// nobody. It counts in the engine's cgroup.
func newScript(script []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(ScriptName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // a kernel before 6.3, which lets all of them be executed
		fd, err = unix.MemfdCreate(ScriptName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, &refusal{FieldScript, "", "a host where programs in memory may be executed (sysctl vm.memfd_noexec below 2), or a program that is a file", err}
	}
	file := os.NewFile(uintptr(fd), pathOfFile(fd))
	_, err = file.Write(script)
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// withFile puts a file at a number of the files of a process. Those between are closed there.
func withFile(files []*os.File, at int, file *os.File) []*os.File {
	for len(files) < at {
		files = append(files, nil)
	}
	return append(files, file)
}

// describeScript returns the fault of a script that could not be started. Of the script it shows
// the interpreter alone.
func describeScript(script []byte, err error) error {
	errno, ok := errors.AsType[unix.Errno](err)
	if !ok {
		return err
	}
	named := interpreterOf(script)
	named = strings.ToValidUTF8(named[:min(len(named), maxInterpreter)], "?")
	if strings.HasSuffix(named, "\r") {
		return &refusal{FieldScript, named, "lines that end without a carriage return", err}
	}
	switch errno { //nolint:exhaustive // the others are not the script's fault
	case unix.ENOENT, unix.ENOTDIR:
		return &refusal{FieldScript, named, wantScriptsInterpreter, err}
	case unix.EACCES, unix.EPERM:
		return &refusal{FieldScript, named, wantScriptExecutable, err}
	case unix.ENOEXEC, unix.ELIBBAD:
		return &refusal{FieldScript, named, wantScript, err}
	case unix.E2BIG:
		return &refusal{FieldCommand, "", "fewer or shorter arguments and environment", err}
	}
	return &refusal{FieldScript, named, "a script that can be executed", err}
}

// maxInterpreter bounds the shown part of an interpreter, in bytes.
const maxInterpreter = 100

// interpreterOf is the program that a script names in its first line; empty: it names none.
func interpreterOf(head []byte) string {
	line, script := bytes.CutPrefix(head, []byte("#!"))
	if !script {
		return ""
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' }) // as the kernel has it
	if len(words) == 0 {
		return ""
	}
	return words[0]
}
