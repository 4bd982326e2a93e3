package serve

import (
	"errors"
	"io/fs"
	"net"
	"syscall"

	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery/consul"
	"github.com/bursar/bursar/internal/regularfile"
)

// shownReason is the reason for a wait of the start in words that anybody may read. The error
// itself has paths of this machine, addresses, and words of other servers: only the log has it.
func shownReason(err error) string {
	if marked, ok := errors.AsType[*transientError](err); ok {
		err = errors.Join(err, marked.cause)
	}
	var (
		later   *coordinator.TransientConfigError
		refused *store.RefusedError
		file    *credential.FileError
		toRead  *coordinator.FileError
		garbled *election.IDError
		called  *consul.Error
		dialed  *net.OpError
		path    *fs.PathError
		hangs   *regularfile.HangError
	)
	why := "something fails that may pass"
	switch {
	case errors.Is(err, store.ErrFull):
		why = store.ErrFull.Error()
	case errors.Is(err, store.ErrReadOnly):
		why = store.ErrReadOnly.Error()
	case errors.Is(err, store.ErrIO):
		why = store.ErrIO.Error()
	case errors.Is(err, store.ErrAway):
		why = store.ErrAway.Error()
	case errors.As(err, &refused) && refused.Reason == store.InUse:
		why = "another process has the store"
	case errors.As(err, &refused):
		why = "the store cannot be used now"
	case consul.Refused(err):
		why = "Consul refuses this coordinator"
	case errors.As(err, &garbled):
		why = "Consul's key of the cluster's id holds something else"
	case errors.As(err, &called):
		why = "Consul does not answer this coordinator"
	case errors.As(err, &file), errors.As(err, &toRead), errors.As(err, &later), errors.As(err, &path), errors.As(err, &hangs):
		why = "a file or a folder cannot be used now"
	case errors.Is(err, syscall.EADDRINUSE):
		why = "another process has the port"
	case errors.As(err, &dialed):
		why = "another server does not answer"
	}
	return why + "; the log of this coordinator says more"
}
