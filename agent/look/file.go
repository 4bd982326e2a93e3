package look

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// file is the path of a file that has to be there. It is not opened: opening a FIFO would wait, and
// could have an effect on the engine.
type file string

func (f file) look(context.Context) (bool, string) {
	var stat unix.Stat_t
	for {
		err := unix.Stat(string(f), &stat)
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil:
			return true, ""
		case errors.Is(err, unix.ENOENT):
			return false, "there is no file " + string(f)
		default:
			return false, "file " + string(f) + ": " + err.Error()
		}
	}
}
