package policy

import "fmt"

// LeaderEnd is what is done about the processes of an engine that live on when its main process has
// ended. The zero LeaderEnd keeps them.
type LeaderEnd uint8

// What is done at the end of the main process.
const (
	// KeepAtLeaderEnd lets the others live on. The engine keeps its allocation until the last one
	// has ended.
	KeepAtLeaderEnd LeaderEnd = iota
	// StopAtLeaderEnd stops the others.
	StopAtLeaderEnd
)

// String returns the name, as ParseLeaderEnd reads it.
func (l LeaderEnd) String() string {
	if l == StopAtLeaderEnd {
		return "stop"
	}
	return "keep"
}

// ParseLeaderEnd reads the name; the empty one is keep.
func ParseLeaderEnd(text string) (LeaderEnd, error) {
	switch text {
	case "", KeepAtLeaderEnd.String():
		return KeepAtLeaderEnd, nil
	case StopAtLeaderEnd.String():
		return StopAtLeaderEnd, nil
	}
	return 0, fmt.Errorf("%q: want keep or stop", text)
}
