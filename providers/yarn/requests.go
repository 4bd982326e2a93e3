package yarn

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"golang.org/x/time/rate"
)

const (
	defaultRequests = 1200 // we need about 60: one for each of 50 applications per reading
	leastRequests   = 60
	mostRequests    = 100_000
	// keptRequests is the part of the budget that single requests for applications leave to the
	// next readings.
	keptRequests = 12
)

// requestBudget limits and counts the requests to all servers of a cluster. Methods may be called
// from any goroutine.
type requestBudget struct {
	perMinute int
	// limiter allows a burst of half of perMinute, and refills the other half per minute. So no
	// minute has more than perMinute requests.
	limiter *rate.Limiter
	sent    atomic.Int64
}

func newRequestBudget(perMinute int) *requestBudget {
	half := perMinute / 2
	return &requestBudget{perMinute: perMinute, limiter: rate.NewLimiter(rate.Limit(half)/60, half)}
}

// transport sends requests through base and delays them as needed. The error may be the context's
// own, or a *BudgetError if the delay would exceed the context's deadline.
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

// spare returns the number of deferrable requests that may be sent now.
func (b *requestBudget) spare() int { return max(0, int(b.limiter.Tokens())-keptRequests) }

func (b *requestBudget) spent() *BudgetError { return &BudgetError{b.perMinute} }

// BudgetError reports that a request was not sent because of the rate limit.
type BudgetError struct {
	// PerMinute is the setting requestsPerMinute.
	PerMinute int
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("no more than %d requests a minute: see the setting %s", e.PerMinute, settingRequests)
}
