package socket

import (
	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

const (
	// moreConns is how many connections one user may have open beyond one for each request that may
	// be in flight. Over HTTP/1.1 each waiting request has one. So a user with too many connections
	// always has an idle one, which is closed for the next.
	moreConns = 256
	// maxAllConns bounds the connections of all users together: a user with a range of subordinate
	// uids can be many users. A connection takes some 20 KiB. Connections of trusted callers are
	// neither counted nor refused.
	maxAllConns = 8192
	// allOfOne is the ratio of the requests of all users to those of one.
	allOfOne = 3
	// maxBodies is how many bytes of requests in flight are held for one user, maxAllBodies for
	// all. Once decoded, they take up to fourteen times as much memory. Requests have some hundred
	// bytes; only a Launch with a large environment has more.
	maxBodies    = 4 << 20
	maxAllBodies = 16 << 20
	// connectsPerCall is the ratio of connections that one user may open to requests: a `bursar
	// run` opens one to three, and may wait for a while before it asks again.
	connectsPerCall = 8
)

// Limits returns the limits of one user's requests: rate is per second in the long run, burst at
// once, and waiting how many may wait.
func Limits(rate, burst, waiting int) admission.Limits {
	return admission.Limits{
		Rate: rate, Burst: burst, Calls: burst + waiting, AllCalls: allOfOne * (burst + waiting), Waiting: waiting, AllWaiting: allOfOne * waiting,
		Connects: connectsPerCall * rate, ConnectBurst: connectsPerCall * (burst + waiting),
		Bytes: maxBodies, AllBytes: maxAllBodies,
	}
}

// keepsGrant reports whether a request, by its path, confirms, extends or gives back a grant. A
// caller that has used up its rate must still be able to do that. Such a request costs little, and
// has a rate of its own.
func keepsGrant(path string) bool {
	switch path {
	case bursarv1connect.AllocationServiceConfirmProcedure, bursarv1connect.AllocationServiceRenewProcedure,
		bursarv1connect.AllocationServiceReleaseProcedure, bursarv1connect.AllocationServiceCancelProcedure,
		bursarv1connect.AllocationServiceStopProcedure:
		return true
	}
	return false
}

// connectionLimits returns the limits of the callers' connections. One user can be as many users as
// there are subordinate uids: if there are too many connections, the user with the most loses one.
func connectionLimits(of admission.Limits) admission.ConnectionLimits {
	known, descriptors := admission.Descriptors(maxAllConns, 1, 2)
	return admission.ConnectionLimits{Known: known, KnownOf: descriptors, Caller: of.Calls + moreConns, Streams: of.Calls, First: headerTimeout}
}
