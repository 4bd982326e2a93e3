package coordinator

import (
	"context"

	"github.com/bursar/bursar/coordinator/auth"
)

func originOf(ctx context.Context) *Origin {
	c, ok := auth.FromContext(ctx)
	if !ok || c.Procedure == "" {
		return nil
	}
	return &Origin{Procedure: c.Procedure, Caller: c.Actor.Name, Message: c.Message}
}
