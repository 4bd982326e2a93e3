package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/output/folder"
)

// usualPath is where programs are looked for if there is no PATH.
const usualPath = "/usr/local/bin:/usr/bin:/bin"

// refusal is an error in a Spec.
type refusal struct {
	field, value, want string
	err                error
}

func (r *refusal) Error() string { return fmt.Sprintf("%s: %q: %v", r.field, r.value, r.err) }

func (r *refusal) Unwrap() error { return r.err }

// start starts the engine. If that fails, the engine is nil and Started says why.
func start(spec Spec) (*engine, Started) {
	e, err := newEngine(spec)
	if err == nil {
		if e.startTime, err = startTime(e.process.Pid); err == nil {
			return e, e.asStarted()
		}
		e.kill(unix.SIGKILL)
		_, _ = e.process.Wait()
	}
	return nil, notStarted(err)
}

// asStarted says that the engine is there.
func (e *engine) asStarted() Started {
	return Started{PID: int32(e.process.Pid), StartTime: e.startTime} //nolint:gosec // a pid
}

// notStarted says why there is no engine.
func notStarted(err error) Started {
	if wrong, ok := errors.AsType[*refusal](err); ok {
		return Started{Field: wrong.field, Value: wrong.value, Want: wrong.want, Error: wrong.err.Error()}
	}
	return Started{Error: err.Error()}
}

func newEngine(spec Spec) (*engine, error) {
	dir, err := folder.Open(spec.Log.Directory, unix.O_RDONLY)
	if stranger, ok := errors.AsType[*folder.StrangerError](err); ok {
		return nil, &refusal{FieldLogs, spec.Log.Directory, "a path without links of other users: " + stranger.Short(), errors.New("leads through a link of another user")}
	}
	if err != nil {
		return nil, &refusal{FieldLogs, spec.Log.Directory, "a folder that its user may write to", err}
	}
	// Programs that clean up by age, such as systemd-tmpfiles, leave a folder alone that is
	// locked. An engine may lock a folder that its user has named, as Flink does with that of its
	// pids.
	if spec.Log.Own {
		_ = unix.Flock(dir, unix.LOCK_SH|unix.LOCK_NB) // a courtesy
	}
	e := &engine{stdout: newLogFile(dir, "stdout", spec.ID, spec.Log), stderr: newLogFile(dir, "stderr", spec.ID, spec.Log)}
	for _, file := range []*logFile{e.stdout, e.stderr} {
		err := file.open()
		if err == nil || full(err) {
			err = file.checkOthers()
		}
		if err != nil {
			return nil, &refusal{FieldLogs, spec.Log.Directory, "a folder that its user may write to, with no files of others: " + err.Error(), err}
		}
		if file.fd >= 0 {
			file.describe() // a reader must not take the offsets of an earlier engine for this one's
		}
	}
	// Here and not in the child, so that the error is not taken for one of the program.
	if err := os.Chdir(spec.WorkingDirectory); err != nil {
		return nil, &refusal{FieldDirectory, spec.WorkingDirectory, "a directory that its user may enter", errors.Unwrap(err)}
	}
	if err := checkRequired(spec.RequiredFiles, thereIs); err != nil {
		return nil, err
	}
	if err := e.find(spec); err != nil {
		return nil, err
	}
	if err := checkUnchangeable(spec, e.program.path); err != nil {
		return nil, err
	}
	if err := e.start(spec); err != nil {
		return nil, err
	}
	return e, os.Chdir("/") //nolint:wrapcheck // it keeps nobody from unmounting what the engine has left
}

// find finds the program of an engine, or makes it of the script.
func (e *engine) find(spec Spec) (err error) {
	e.program.command = spec.Command[0]
	if len(spec.Script) > 0 {
		e.program.script, e.program.head = nil, spec.Script[:min(len(spec.Script), shebang)]
		if e.program.script, err = newScript(spec.Script); err != nil {
			return err
		}
		e.program.path, e.program.starts = e.program.script.Name(), scriptPath
		return nil
	}
	if e.program.path, err = find(spec.Command[0], spec.Environment); err != nil {
		return &refusal{FieldCommand, spec.Command[0], wantProgram, err}
	}
	e.program.starts = e.program.path
	return nil
}

// start starts the process with pipes for its output and without input. The process gets a session
// of its own, which identifies processes that it leaves behind.
func (e *engine) start(spec Spec) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err //nolint:wrapcheck // says all
	}
	defer null.Close()
	outRead, out, err := os.Pipe()
	if err != nil {
		return err //nolint:wrapcheck // says all
	}
	defer out.Close()
	errRead, errs, err := os.Pipe()
	if err != nil {
		return errors.Join(err, outRead.Close())
	}
	defer errs.Close()
	e.out, e.err = outRead, errRead
	attributes := &os.ProcAttr{Env: spec.Environment, Files: []*os.File{null, out, errs}, Sys: &syscall.SysProcAttr{Setsid: true}}
	if e.program.script != nil {
		attributes.Files = withFile(attributes.Files, scriptFile, e.program.script)
	}
	starts := e.program.starts
	if spec.Hold {
		starts, err = e.hold(attributes)
	}
	if err == nil {
		e.process, err = startClean(starts, spec.Command, attributes)
	}
	if e.gate != nil {
		e.gate.Started()
	} else {
		defer e.program.close()
	}
	if err != nil {
		return errors.Join(e.program.describe(err), outRead.Close(), errRead.Close())
	}
	return nil
}

// program is the program of an engine.
type program struct {
	// command is its name as it was asked for. path is where the keeper finds it, and starts is
	// where the engine's process does.
	command, path, starts string
	// script is the file that it is, with that content at the beginning; nil: it is in a folder.
	script *os.File
	head   []byte
}

// describe returns the fault of a program that could not be started, if the program is the cause.
func (p *program) describe(err error) error {
	if p.script != nil {
		return describeScript(p.head, err)
	}
	return describe(p.command, p.path, err)
}

// close closes the keeper's descriptor of a script: the engine has its own.
func (p *program) close() {
	if p.script != nil {
		_ = p.script.Close() // it was written to once, and sealed
	}
}

func describe(named, program string, err error) error {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return err
	}
	switch errno { //nolint:exhaustive // the others are not the program's fault
	case unix.ENOENT:
		if _, statErr := os.Stat(program); statErr == nil {
			return &refusal{FieldCommand, named, wantInterpreter, err}
		}
		return &refusal{FieldCommand, named, wantThere, errno}
	case unix.EACCES, unix.EPERM:
		return &refusal{FieldCommand, named, wantExecutable, errno}
	case unix.ENOEXEC, unix.ELIBBAD:
		return &refusal{FieldCommand, named, wantOfMachine, errno}
	case unix.E2BIG:
		return &refusal{"command", named, "fewer or shorter arguments and environment", errno}
	case unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ENAMETOOLONG, unix.ETXTBSY:
		return &refusal{FieldCommand, named, wantRegular, errno}
	}
	return err
}

// find returns the program's absolute path.
func find(name string, environment []string) (string, error) {
	if path.IsAbs(name) {
		return name, nil
	}
	if strings.Contains(name, "/") {
		return "", errors.New("is a relative path")
	}
	for folder := range strings.SplitSeq(searchPath(environment), ":") {
		if !path.IsAbs(folder) {
			continue // a relative path depends on the working directory
		}
		file := path.Join(folder, name)
		info, err := os.Stat(file)
		if err == nil && info.Mode().IsRegular() && unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
	}
	return "", errors.New("is not in PATH")
}

func searchPath(environment []string) string {
	found := usualPath
	for _, entry := range environment {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			found = value
		}
	}
	return found
}

// startTime reads when a process started, in clock ticks after boot: field 22 of /proc/PID/stat.
func startTime(pid int) (uint64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err //nolint:wrapcheck // names the file
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from field 3 on
	if len(fields) < 20 {
		return 0, fmt.Errorf("process %d: its stat has %d fields", pid, len(fields)+2)
	}
	return strconv.ParseUint(fields[19], 10, 64) //nolint:wrapcheck // names the text
}
