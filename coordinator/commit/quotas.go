package commit

import (
	"context"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
)

// SetQuotaFiles replaces the rules of files, by source.
func (loop *Loop) SetQuotaFiles(ctx context.Context, from *core.Origin, sets map[string][]ledger.Quota) error {
	return loop.change(ctx, from, func(c *core.Core, now ledger.Instant) error {
		return c.ReplaceQuotaFiles(now, sets)
	}, nil)
}
