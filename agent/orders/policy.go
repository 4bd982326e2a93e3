package orders

import (
	"fmt"
	"path"
	"slices"
	"strconv"

	"github.com/bursar/bursar/internal/osuser"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Policy says which engines a coordinator may start on this host. The zero value allows none.
type Policy struct {
	// Accounts are the names of accounts that engines may run as.
	Accounts []string
	// MinUID is the least uid of such an account.
	MinUID uint32
	// DeniedGroups are names of groups: no engine runs as a member of one.
	DeniedGroups []string
	// GroupsByDefault is set if DeniedGroups are the defaults. Then the machine may lack some of
	// them.
	GroupsByDefault bool
	// Programs are the absolute paths of the programs that may be executed; none: any.
	Programs []string
	// Variables are the names of the variables that a launch may set; a * at the end of a name
	// matches any suffix. Nil means any variable if Programs is empty, otherwise HarmlessVariables.
	Variables []string
	// Set are variables that every engine has, by their names.
	Set map[string]string
	// Trusted are names and uids of accounts that may act for others on this host. No engine runs
	// as one of them.
	Trusted []string
	// AgentUID is the agent's own uid. No engine runs as it.
	AgentUID uint32
}

// On reports whether the policy allows anything.
func (p *Policy) On() bool { return len(p.Accounts) > 0 }

// RefusedError says that this host does not allow an engine.
type RefusedError struct{ What, Want string }

func (e *RefusedError) Error() string { return e.What + ": want " + e.Want }

// Allows refuses an account that engines may not run as, by its name and by the machine's data.
// known is this host's name for its uid, if there is one. Allows does not check groups. The error
// is a *RefusedError.
func (p *Policy) Allows(name string, user osuser.User, known string) error {
	switch {
	case !slices.Contains(p.Accounts, name) || user.Name != name:
		return notListed(name)
	case user.UID == 0:
		return &RefusedError{fmt.Sprintf("account %q has the uid 0", name), "another account: nothing is launched as root for a coordinator"}
	case user.UID < p.MinUID:
		return &RefusedError{fmt.Sprintf("account %q has the uid %d", name, user.UID), fmt.Sprintf("one of at least %d (engines.remote.minUserId)", p.MinUID)}
	case user.UID == p.AgentUID:
		return &RefusedError{fmt.Sprintf("account %q is the agent's own", name), "another account"}
	case slices.ContainsFunc(p.Trusted, func(trusted string) bool {
		return trusted == name || trusted == known || trusted == strconv.FormatUint(uint64(user.UID), 10)
	}):
		return &RefusedError{fmt.Sprintf("account %q may act for others on this host (trustedUsers)", name), "an account with no rights over others"}
	}
	return nil
}

// allowsPrograms refuses a launch with a program that engines.remote.programs does not name: the
// engine's own program, or the command of its readiness check. The error is a *RefusedError.
func (p *Policy) allowsPrograms(spec *bursarv1.LaunchSpec) error {
	if len(p.Programs) == 0 {
		return nil
	}
	if len(spec.GetScript()) > 0 {
		return &RefusedError{"a script: this host does not launch any for a coordinator", "a program of engines.remote.programs"}
	}
	if err := p.AllowsProgram(spec.GetCommand()[0]); err != nil {
		return err
	}
	if command := spec.GetReady().GetCommand().GetCommand(); len(command) > 0 {
		return p.AllowsProgram(command[0])
	}
	return nil
}

func notListed(name string) error {
	return &RefusedError{fmt.Sprintf("account %q: this host launches nothing as it for a coordinator", name), "an account of engines.remote.accounts in its agent's file"}
}

// AllowsProgram refuses a program. The error is a *RefusedError.
func (p *Policy) AllowsProgram(program string) error {
	if len(p.Programs) == 0 || path.IsAbs(program) && path.Clean(program) == program && slices.Contains(p.Programs, program) {
		return nil
	}
	return &RefusedError{fmt.Sprintf("program %q: this host does not launch it for a coordinator", program), "the absolute path of one in engines.remote.programs"}
}
