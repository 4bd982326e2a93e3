package yarn

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
)

// faults carries a panic from a goroutine to the goroutine that started it and waits for it. A user
// of a Provider can then recover from a library's panic about an answer from the network. Nobody
// could recover from it in a goroutine of the provider's own.
type faults struct{ first atomic.Pointer[fault] }

// fault is a panic in another goroutine.
type fault struct {
	cause any
	stack []byte
}

func (f *fault) Error() string { return fmt.Sprint(f.cause) }

// LogValue shows its stack, too.
func (f *fault) LogValue() slog.Value {
	return slog.StringValue(fmt.Sprintf("%v\n%s", f.cause, f.stack))
}

// catch is deferred by each goroutine. It calls then after a panic.
func (f *faults) catch(then func()) {
	if cause := recover(); cause != nil {
		f.first.CompareAndSwap(nil, &fault{cause, debug.Stack()})
		then()
	}
}

// rethrow repeats the first panic. Call it after all goroutines have ended.
func (f *faults) rethrow() {
	if first := f.first.Load(); first != nil {
		panic(first)
	}
}
