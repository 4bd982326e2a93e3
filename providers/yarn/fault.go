package yarn

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
)

// faults brings a panic in a goroutine to the goroutine that started it and waits for it. So a
// user of a Provider can recover from what a library makes of an answer from the network. It could
// not recover from a panic in a goroutine that it does not know.
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

// catch is deferred by each goroutine. Then is run after a panic.
func (f *faults) catch(then func()) {
	if cause := recover(); cause != nil {
		f.first.CompareAndSwap(nil, &fault{cause, debug.Stack()})
		then()
	}
}

// rethrow is called after all of them have ended.
func (f *faults) rethrow() {
	if first := f.first.Load(); first != nil {
		panic(first)
	}
}
