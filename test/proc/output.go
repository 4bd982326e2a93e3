package proc

import (
	"bytes"
	"slices"
	"sync"
)

// most is how many bytes an Output keeps. It is far more than a test reads, and limits the memory
// for a server that prints in a loop.
const most = 64 << 20

// faults returns the texts that no Bursar server may ever print.
func faults() []string {
	return []string{"DATA RACE", "panic: ", "fatal error: ", "the ledger panicked", "the ledger is wrong"}
}

// Output collects the output of a process: at most the last 64 MiB. The zero value is empty. It is
// safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	text []byte   // guarded by mu
	seen []string // guarded by mu; faults in dropped text
	most int      // bytes; 0: see most
}

// Write appends to it, and drops the oldest half if it becomes too long. It returns no error.
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

// String returns the kept text.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// Tail returns the end: at most 8 KiB, with "…" before it if there is more.
func (o *Output) Tail() string {
	const longest = 8 << 10
	text := o.String()
	if len(text) > longest {
		return "…" + text[len(text)-longest:]
	}
	return text
}

// Forget drops the text.
func (o *Output) Forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text, o.seen = nil, nil
}

// Faults lists the texts that no Bursar server may ever print and that were printed since the last
// Forget.
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
