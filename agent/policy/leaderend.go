package policy

import "fmt"

// LeaderEnd selects the treatment of an engine's other processes after its main process has ended.
// The zero LeaderEnd keeps them.
type LeaderEnd uint8

// The treatments at the end of the main process.
const (
	// KeepAtLeaderEnd lets the other processes run on. The engine keeps its allocation until the
	// last process has ended.
	KeepAtLeaderEnd LeaderEnd = iota
	// StopAtLeaderEnd stops the other processes.
	StopAtLeaderEnd
)

// String returns the name, as ParseLeaderEnd reads it.
func (l LeaderEnd) String() string {
	if l == StopAtLeaderEnd {
		return "stop"
	}
	return "keep"
}

// ParseLeaderEnd reads the name; an empty name means keep.
func ParseLeaderEnd(text string) (LeaderEnd, error) {
	switch text {
	case "", KeepAtLeaderEnd.String():
		return KeepAtLeaderEnd, nil
	case StopAtLeaderEnd.String():
		return StopAtLeaderEnd, nil
	}
	return 0, fmt.Errorf("%q: want keep or stop", text)
}
