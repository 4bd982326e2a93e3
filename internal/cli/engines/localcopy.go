package engines

import (
	"errors"
	"io/fs"
	"os"

	"github.com/bursar/bursar/internal/cli/failure"
)

// localCopy is a file here that gets a copy of an engine's standard output. Until the engine has
// begun it keeps its earlier content. A nil one is no file.
type localCopy struct {
	file *os.File
	// made: the file was not there before. begun: its earlier content is gone.
	made, begun bool
	// failed: it could not be written to, and gets nothing more.
	failed bool
}

// openCopy opens the file, so that a command ends at once if it cannot write there.
func openCopy(name string) (*localCopy, error) {
	const mode = 0o666                                                      // without the umask
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode) //nolint:gosec // the user names it
	made := err == nil
	if errors.Is(err, fs.ErrExist) {
		file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE, mode) //nolint:gosec // as above
	}
	if err != nil {
		return nil, failure.Usagef("--stdout: %w", err)
	}
	return &localCopy{file: file, made: made}, nil
}

// begin empties the file: the engine has begun.
func (c *localCopy) begin() error {
	if c == nil || c.begun {
		return nil
	}
	c.begun = true
	if info, err := c.file.Stat(); err != nil || !info.Mode().IsRegular() {
		return err //nolint:wrapcheck // names the file
	}
	return c.file.Truncate(0) //nolint:wrapcheck // names the file
}

// close closes the file. One that was made for an engine that has not begun goes again.
func (c *localCopy) close() {
	if c == nil {
		return
	}
	_ = c.file.Close()
	if c.made && !c.begun {
		_ = os.Remove(c.file.Name())
	}
}
