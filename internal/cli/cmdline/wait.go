package cmdline

import (
	"context"
	"time"
)

// lookAgain is how often a command that waits for an end looks whether it has come.
const lookAgain = 250 * time.Millisecond

// WaitFor looks until something has ended, or until the context has.
func WaitFor(ctx context.Context, ended func() (bool, error)) error {
	pause := time.NewTicker(lookAgain)
	defer pause.Stop()
	for {
		if done, err := ended(); done || err != nil {
			return err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
}
