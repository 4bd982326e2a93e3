package failure

import (
	"errors"
	"io"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/credential"
)

// whereToLook says in which listing to find the thing that a message says does not exist; empty
// for other messages.
func whereToLook(message string) string {
	what, isMissing := strings.CutPrefix(message, "no such ")
	what, _, _ = strings.Cut(what, ":")
	switch {
	case !isMissing:
		return ""
	case what == "queue", what == "queue until it is used":
		return "`bursar queues` shows the queues that are known, with their partitions if there are several"
	case what == "cluster", what == "provider", what == "kind of cluster":
		return "`bursar providers` shows the clusters that are configured; a queue is KIND:CLUSTER:QUEUE"
	}
	return ""
}

// nothingThere reports whether there is no server at an address at all. A server that does not
// trust the caller, or that has answered, is there.
func nothingThere(err error) bool {
	_, trust := errors.AsType[*credential.TrustError](err)
	return client.Unavailable(err) && !connect.IsWireError(err) && !trust
}

// isOfAnotherHost reports whether an error may mean that an allocation is another host's.
func isOfAnotherHost(err error) bool {
	missing, ok := errors.AsType[*NoSuchError](err)
	return ok && missing.What == "allocation" || client.NotFound(err)
}

// inTime is the reason if the time was over.
const inTime = "no answer in time"

// hungUp reports whether a connection was there, and ended before an answer came.
func hungUp(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
