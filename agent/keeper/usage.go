package keeper

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const usage = `bursar-keeper watches over one engine. The Bursar agent starts it, never a person: one
for each engine that the agent launches, as the engine's user. It starts the engine,
writes its output to files, and writes down how it ended.

To start an engine, use: bursar run or bursar submit
To end one:              bursar stop ID
The agent's setting:     engines.keeper (default: bursar-keeper next to bursar)
`

// exitUsage is the code of a command that was used in a wrong way, as in sysexits.h.
const exitUsage = 64

// Explain prints the purpose of the program if a person has started it. asked is false if an agent
// or a keeper has started it.
func Explain(args []string) (code int, asked bool) {
	switch {
	case len(args) == 1:
		var stat unix.Stat_t
		if unix.Fstat(0, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFIFO {
			return 0, false
		}
	case args[1] == "help":
	case !strings.HasPrefix(args[1], "-"):
		return 0, false
	}
	out, code := os.Stderr, exitUsage
	if len(args) == 2 && (args[1] == "--help" || args[1] == "-h" || args[1] == "help") {
		out, code = os.Stdout, 0
	}
	_, _ = out.WriteString(usage) // nobody is told
	return code, true
}
