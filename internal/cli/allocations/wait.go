package allocations

import (
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
)

// withoutWait gives a refusal the hint of a command that does not wait, and changes an allocation
// that explain knows nothing new about.
func withoutWait(err error) error {
	in, short := client.Insufficient(err)
	switch {
	case !short:
		return err
	case render.IsNever(in):
		return &failure.HintedError{Err: err, Hint: render.NeverHint(in)}
	}
	return &failure.HintedError{Err: err, Hint: "nothing was changed: ask for less, or try again later; `bursar hosts` and `bursar quotas` show what is free"}
}
