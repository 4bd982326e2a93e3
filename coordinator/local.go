package coordinator

import (
	"context"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
)

// Local calls a coordinator's write path from the same process: it does the work of a handler's
// call without the wire. It is for benchmarks and for programs that embed a coordinator. It trusts
// its caller, and applies no label rules. Many goroutines may use it, once the server is ready.
type Local struct{ loop *commit.Loop }

// Local returns the server's Local.
func (s *Server) Local() Local { return Local{s.loop} }

// Allocate asks for resources, and returns when the decision is durable. The errors are the
// ledger's, and those of a coordinator that takes no calls.
func (l Local) Allocate(ctx context.Context, c ledger.AllocateCommand) (ledger.AllocateResult, error) {
	return l.loop.Allocate(ctx, &c)
}

// Do runs f on the ledger, in its turn, and returns once everything that f changed or saw is
// durable. f must not keep the ledger.
func (l Local) Do(ctx context.Context, f func(l *ledger.Ledger, now ledger.Instant)) error {
	return l.loop.Do(ctx, f)
}
