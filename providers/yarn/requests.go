package yarn

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"golang.org/x/time/rate"
)

const (
	defaultRequests = 1200 // of ours are about 60, one for each of 50 applications with every reading
	leastRequests   = 60
	mostRequests    = 100_000
	// keptRequests are left to the next readings when applications are asked for one by one.
	keptRequests = 12
)

// requestBudget bounds and counts the requests to all servers of a cluster. It may be used by many
// goroutines.
type requestBudget struct {
	perMinute int
	// limiter allows half of perMinute at once, and the other half in a minute: so there are never
	// more in a minute, whichever that is.
	limiter *rate.Limiter
	sent    atomic.Int64
}

func newRequestBudget(perMinute int) *requestBudget {
	half := perMinute / 2
	return &requestBudget{perMinute: perMinute, limiter: rate.NewLimiter(rate.Limit(half)/60, half)}
}

// transport sends requests through base, each when it is time for it. The error may be a
// *BudgetError, if that is not soon enough for the request's context, or the context's own.
func (b *requestBudget) transport(base http.RoundTripper) http.RoundTripper {
	return roundTrip(func(request *http.Request) (*http.Response, error) {
		if err := b.limiter.Wait(request.Context()); err != nil {
			if over := request.Context().Err(); over != nil {
				return nil, over
			}
			return nil, b.spent()
		}
		b.sent.Add(1)
		return base.RoundTrip(request)
	})
}

// spare is how many requests may be sent now that can also wait.
func (b *requestBudget) spare() int { return max(0, int(b.limiter.Tokens())-keptRequests) }

func (b *requestBudget) spent() *BudgetError { return &BudgetError{b.perMinute} }

// BudgetError says that a request was not sent, because there were too many of late.
type BudgetError struct {
	// PerMinute is the setting requestsPerMinute.
	PerMinute int
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("no more than %d requests a minute: see the setting %s", e.PerMinute, settingRequests)
}
