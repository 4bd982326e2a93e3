package keeper

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// requiredPatience is how long the files that an engine requires may take to answer, all of them
// together. A file system of another machine, which may hang, is mounted within it.
const requiredPatience = 5 * time.Second

var errHangs = errors.New("does not answer within " + requiredPatience.String())

// checkRequired refuses an engine if a file is not there that it requires. A file system that does
// not answer holds a thread, and nobody waits for that.
func checkRequired(files []string, look func(file string) error) error {
	if len(files) == 0 {
		return nil
	}
	var at atomic.Int64
	found := make(chan error, 1)
	go func() {
		for i, file := range files {
			at.Store(int64(i))
			if err := look(file); err != nil {
				found <- missing(i, file, err)
				return
			}
		}
		found <- nil
	}()
	timer := time.NewTimer(requiredPatience)
	defer timer.Stop()
	select {
	case err := <-found:
		return err
	case <-timer.C:
		i := int(at.Load())
		return missing(i, files[i], errHangs)
	}
}

func missing(i int, file string, err error) error {
	return &refusal{FieldRequiredFiles + "[" + strconv.Itoa(i) + "]", file, "a host where the engine's user sees it", err}
}

// thereIs reports whether something is at a path, and at the end of it if that is a link. It opens
// nothing.
func thereIs(file string) error {
	for {
		var stat unix.Stat_t
		if err := unix.Stat(file, &stat); !errors.Is(err, unix.EINTR) {
			return err //nolint:wrapcheck // the caller names the file
		}
	}
}
