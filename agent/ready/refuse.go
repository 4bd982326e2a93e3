package ready

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Sight says which processes an agent can see, and which programs it has.
type Sight struct {
	// Proc is the process table, /proc.
	Proc string
	// UID is the user that the agent runs as. MayTrace reports whether it may look into the
	// processes of other users (CAP_SYS_PTRACE).
	UID      uint32
	MayTrace bool
	// Blind says why it does not see the processes of other users; nil or "": it does.
	Blind func() string
	// Keeper is the path of the program bursar-keeper.
	Keeper string
}

// Own is the sight of this process.
func Own(proc, keeper string, blind func() string) Sight {
	return Sight{Proc: proc, UID: uint32(os.Geteuid()), MayTrace: mayTrace(), Blind: blind, Keeper: keeper} //nolint:gosec // a uid
}

// Subject is the engine that a check is for, before it is started.
type Subject struct {
	// UID is its user's.
	UID uint32
	// Launched: the agent will start it, under a keeper.
	Launched bool
	// WorkingDirectory is absolute; "": not known.
	WorkingDirectory string
}

// Refuse returns an error if the check is wrong, or if its result could not be seen: then the
// engine would never be ready. The error is a *launch.FieldError.
func (s Sight) Refuse(spec Spec, on Subject) error {
	if err := spec.Check(); err != nil {
		return err
	}
	if spec.Port != 0 {
		return s.refusePort(spec.Port, on)
	}
	c := spec.Stored()
	field, value := c.What, shown(spec.File)
	switch {
	case spec.File != "":
	case spec.Line != nil:
		field, value = "line.pattern", shown(spec.Line.Pattern)
	default:
		field, value = "command.command", shown(spec.Command[0])
	}
	if !on.Launched {
		return wrong(field, value, "an engine that the agent starts, or a port; a launcher that starts its engine itself says at Confirm that it is ready",
			errors.New("cannot be checked: the engine has no keeper"))
	}
	if err := isProgram(s.Keeper); err != nil {
		return wrong(field, value, "the program bursar-keeper at "+strconv.Quote(s.Keeper)+" (engines.keeper of the agent)", err)
	}
	if on.WorkingDirectory == "" && spec.File != "" && !path.IsAbs(spec.File) {
		return wrong(field, value, "an absolute path, or a working directory", errors.New("is a relative path, and the engine has no working directory"))
	}
	return nil
}

// refusePort refuses a port whose owner the agent could not find out.
func (s Sight) refusePort(port int32, on Subject) error {
	value := strconv.Itoa(int(port))
	if _, err := os.ReadFile(filepath.Join(s.Proc, "self/net/tcp")); err != nil {
		return wrong("port", value, "a file, a line or a command: the agent cannot read which ports are listened on", err)
	}
	if on.UID == s.UID {
		return nil
	}
	if s.Blind != nil {
		if why := s.Blind(); why != "" {
			return wrong("port", value, "an agent that sees the processes of all users, or a file, a line or a command", errors.New(why))
		}
	}
	if !s.MayTrace {
		return wrong("port", value, "an agent that is root (CAP_SYS_PTRACE), or a file, a line or a command",
			fmt.Errorf("cannot be checked: the agent runs as uid %d and may not see which files the processes of uid %d have open", s.UID, on.UID))
	}
	return nil
}

func isProgram(name string) error {
	if name == "" {
		return errors.New("no keeper is set")
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return err //nolint:wrapcheck // names the file
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is no program", name)
	}
	return nil
}

func mayTrace() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}
