package admission

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The reasons for which a caller is refused, as the metric has them.
const (
	tooManyStreams = "streams"
	tooManyBytes   = "bytes"
	tooManyAnswers = "answers"
	// tooManyConnects counts with the connections that are closed for others.
	tooManyConnects = "connections"
)

// The reasons whose limits can be settings.
const (
	TooFast        = "rate"
	TooManyCalls   = "calls"
	TooManyWaiting = "waiting"
)

func reasons() []string {
	return []string{TooFast, TooManyCalls, TooManyWaiting, tooManyStreams, tooManyBytes, tooManyAnswers}
}

// refusal is what somebody has too many of.
type refusal struct {
	reason, who, what string
	limit             int
	again             time.Duration
}

// refuseLocked counts, logs and words a refusal.
func (c *Controller) refuseLocked(a *account, r refusal) error {
	c.refused.WithLabelValues(r.reason).Inc()
	if c.refusalLog.shouldLog(a.ID, c.now()) {
		c.log.Warn("a caller is refused for having too many", "caller", a.Name, "who", r.who, "of", r.what, "limit", r.limit)
	}
	setting := ""
	if name := c.setting[r.reason]; name != "" {
		setting = " (" + name + ")"
	}
	return Refusal(fmt.Errorf("too many requests: %s may have %d %s here%s: try again in %s", r.who, r.limit, r.what, setting, max(time.Millisecond, r.again.Round(time.Millisecond))), r.again)
}

// Refusal is an error with RESOURCE_EXHAUSTED that says when to try again: as a
// google.rpc.RetryInfo, and as a header in whole seconds for callers who know no details.
func Refusal(err error, again time.Duration) *connect.Error {
	refused := connect.NewError(connect.CodeResourceExhausted, err)
	// such a message always marshals
	if detail, err := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(again)}); err == nil {
		refused.AddDetail(detail)
	}
	refused.Meta().Set("Retry-After", strconv.Itoa(int((again+time.Second-1)/time.Second)))
	return refused
}

// longestAgain bounds the time to try again that a server's answer may name.
const longestAgain = time.Minute

// TryAgain is when a server asks for the next attempt; 0 if it does not.
func TryAgain(err error) time.Duration {
	refused, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return 0
	}
	for _, detail := range refused.Details() {
		if value, err := detail.Value(); err == nil {
			if info, ok := value.(*errdetails.RetryInfo); ok {
				return min(max(0, info.GetRetryDelay().AsDuration()), longestAgain)
			}
		}
	}
	return 0
}

// Refuse answers a request that was refused, in the protocol that it came in.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	if writer := connect.NewErrorWriter(); writer.IsSupported(r) {
		_ = writer.Write(w, r, err) // the caller has gone
		return
	}
	if refused, ok := errors.AsType[*connect.Error](err); ok {
		if again := refused.Meta().Get("Retry-After"); again != "" {
			w.Header().Set("Retry-After", again)
		}
		err = errors.New(refused.Message())
	}
	http.Error(w, err.Error(), http.StatusTooManyRequests)
}

// CloseAfter has an answer end its connection of HTTP/1, if the body of the request is not read to
// its end: it is not known where the next request would begin. A connection of HTTP/2 goes on. It
// has other requests, which can be of other callers, and knows where each begins.
func CloseAfter(answer http.Header, r *http.Request) {
	if r.ProtoMajor == 1 {
		answer.Set("Connection", "close")
	}
}
