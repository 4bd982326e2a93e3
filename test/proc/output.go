package proc

import (
	"bytes"
	"slices"
	"sync"
)

// most is how many bytes an Output keeps. It is far more than a test reads, and limits the memory
// for a server that prints in a loop.
const most = 64 << 20

// faults are what no Bursar must ever print.
func faults() []string {
	return []string{"DATA RACE", "panic: ", "fatal error: ", "the ledger panicked", "the ledger is wrong"}
}

// Output gathers what a process prints: the last 64 MiB of it at most. The zero value is empty. It
// is safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	text []byte   // guarded by mu
	seen []string // guarded by mu; faults in what was dropped for its size
	most int      // bytes; 0: see most
}

// Write adds to it, and drops the oldest half if that is too much. It returns no error.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	limit := o.most
	if limit == 0 {
		limit = most
	}
	if len(o.text) > limit {
		o.seen = o.faultsLocked()
		o.text = slices.Clone(o.text[len(o.text)-limit/2:])
	}
	return len(p), nil
}

// String is what is kept.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// Tail is its end: at most 8 KiB, after "…" if there is more.
func (o *Output) Tail() string {
	const longest = 8 << 10
	text := o.String()
	if len(text) > longest {
		return "…" + text[len(text)-longest:]
	}
	return text
}

// Forget drops what was printed.
func (o *Output) Forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text, o.seen = nil, nil
}

// Faults lists what no Bursar must ever print and was printed since the last Forget.
func (o *Output) Faults() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.faultsLocked()
}

func (o *Output) faultsLocked() []string {
	var list []string
	for _, fault := range faults() {
		if slices.Contains(o.seen, fault) || bytes.Contains(o.text, []byte(fault)) {
			list = append(list, fault)
		}
	}
	return list
}
