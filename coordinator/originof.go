package coordinator

import (
	"context"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/core"
)

func originOf(ctx context.Context) *core.Origin {
	c, ok := auth.FromContext(ctx)
	if !ok || c.Procedure == "" {
		return nil
	}
	return &core.Origin{Procedure: c.Procedure, Caller: c.Actor.Name, Message: c.Message}
}
