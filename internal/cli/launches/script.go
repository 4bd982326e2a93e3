package launches

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/regularfile"
)

// maxScript is the largest script of the contract, in bytes.
const maxScript = 60 << 10

// readScript reads a script from a file, or from standard input if that is "-"; nil without a file.
func readScript(c *cmdline.Invocation, file string) (script []byte, err error) {
	switch file {
	case "":
		return nil, nil
	case "-":
		script, err = regularfile.ReadBounded("stdin", c.In, maxScript)
	default:
		script, err = regularfile.ReadInput(file, maxScript)
	}
	switch {
	case errors.Is(err, regularfile.ErrTooLarge):
		return nil, &failure.ExitError{Code: failure.ExitData, Err: fmt.Errorf("--script %s: has more than %dKiB: want a smaller one, or a command that is a file on the hosts", render.Shown(file), maxScript>>10)}
	case err != nil:
		return nil, cmdline.Unusable(fmt.Errorf("--script: %w", err))
	case len(script) == 0:
		return nil, &failure.ExitError{Code: failure.ExitData, Err: fmt.Errorf("--script %s: is empty", render.Shown(file))}
	case isText(script) && !bytes.HasPrefix(script, []byte("#!")):
		return nil, &failure.ExitError{Code: failure.ExitData, Err: fmt.Errorf("--script %s: begins with %q: want #! and the interpreter in the first line, such as #!/bin/sh", render.Shown(file), firstLine(script))}
	}
	return script, nil
}

// isText reports whether a script is for an interpreter, and no program of the machine's own form.
func isText(script []byte) bool {
	return utf8.Valid(script) && !bytes.ContainsRune(script, 0) && !bytes.HasPrefix(script, []byte("\x7fELF"))
}

// firstLine is the beginning of a script for a message.
func firstLine(script []byte) string {
	const most = 40
	line, _, _ := strings.Cut(string(script), "\n")
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return line
}
