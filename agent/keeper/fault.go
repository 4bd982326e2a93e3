package keeper

// Fault is the reason why a program could not be executed.
type Fault int

// The faults.
const (
	NoFault       Fault = iota // something else was the cause
	NotFound                   // the program or its interpreter is not there
	NotExecutable              // the user may not execute it, or it is no program of the machine
)

// The Want of a Started for a program or a script. The fault has no field of its own: an agent of
// an older version, next to which a newer keeper is installed, reads no Started with a field that
// it does not know.
const (
	wantProgram     = "an absolute path, or a program in the PATH of environment"
	wantThere       = "a program that is there"
	wantInterpreter = "a program whose interpreter is there"
	wantExecutable  = "a program that its user may execute"
	wantOfMachine   = "a program of this machine, or a script whose first line is #! and its interpreter"
	wantRegular     = "a program that is there and can be executed"

	wantScriptsInterpreter = "an interpreter in its first line that is there"
	wantScriptExecutable   = "an interpreter in its first line that its user may execute, and a host where programs in memory may be executed"
	wantScript             = "a text whose first line is #! and the path of its interpreter, or a program of this machine"
)

// Fault returns the fault of the program.
func (s Started) Fault() Fault {
	switch s.Field {
	case FieldCommand, FieldScript:
	default:
		return NoFault
	}
	switch s.Want {
	case wantProgram, wantThere, wantInterpreter, wantScriptsInterpreter:
		return NotFound
	case wantExecutable, wantOfMachine, wantRegular, wantScriptExecutable, wantScript:
		return NotExecutable
	default:
		return NoFault
	}
}
