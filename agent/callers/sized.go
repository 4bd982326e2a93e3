package callers

import (
	"context"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/refusal"
	"github.com/bursar/bursar/proto/convert"
)

// Sized refuses requests that a coordinator would refuse for their size, without asking one.
func Sized() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			if wrong, ok := convert.InvalidField(convert.CheckSize(request.Any())); ok {
				return nil, refusal.Invalid(wrong.GetField(), wrong.GetValue(), wrong.GetWant())
			}
			return next(ctx, request)
		}
	}
}
