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

// The reasons of a refusal, as labels of the metric.
const (
	tooManyStreams = "streams"
	tooManyBytes   = "bytes"
	tooManyAnswers = "answers"
	// tooManyConnects shares its label with connections that are closed in favor of others.
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

// refusal describes the limit that a caller would exceed.
type refusal struct {
	reason, who, what string
	limit             int
	again             time.Duration
}

// refuseLocked counts and logs a refusal, and returns its error.
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

// Refusal returns an error with RESOURCE_EXHAUSTED and the time to try again: as a
// google.rpc.RetryInfo, and as a header in whole seconds for callers that do not read details.
func Refusal(err error, again time.Duration) *connect.Error {
	refused := connect.NewError(connect.CodeResourceExhausted, err)
	// such a message always marshals
	if detail, err := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(again)}); err == nil {
		refused.AddDetail(detail)
	}
	refused.Meta().Set("Retry-After", strconv.Itoa(int((again+time.Second-1)/time.Second)))
	return refused
}

// longestAgain bounds the delay that TryAgain accepts from a server.
const longestAgain = time.Minute

// TryAgain returns the delay before the next attempt that a server asks for; 0 if it asks for none.
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

// Refuse writes the error of a refused request in the request's protocol.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	if writer := connect.NewErrorWriter(); writer.IsSupported(r) {
		_ = writer.Write(w, r, err) // it fails if the caller has gone
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

// CloseAfter makes an answer close its HTTP/1 connection. It is for a request whose body is not
// read to its end: the server does not know where the next request would begin. An HTTP/2
// connection stays open. It has other requests, perhaps of other callers, and the server knows
// where each begins.
func CloseAfter(answer http.Header, r *http.Request) {
	if r.ProtoMajor == 1 {
		answer.Set("Connection", "close")
	}
}
