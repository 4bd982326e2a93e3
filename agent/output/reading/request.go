package reading

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"
)

const (
	// MaxRequest bounds the line of a Request, in bytes. The contract bounds paths to 4 KiB, of
	// which escaping makes six times as much.
	MaxRequest = 32 << 10
	// MaxTailLines bounds Request.TailLines.
	MaxTailLines = 1 << 20
	// maxFrom bounds Request.From, so that nothing overflows.
	maxFrom = int64(1) << 61
)

// The streams of an engine.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Request describes a reader. It begins at the latest of From, TailLines, TailBytes and
// Since, as far as they are set.
type Request struct {
	// ID is the allocation, and Folder where its log files are.
	ID     string `json:"id"`
	Folder string `json:"folder"`
	// Stream is Stdout or Stderr.
	Stream string `json:"stream"`
	// From is an offset.
	From int64 `json:"from,omitempty"`
	// TailLines and TailBytes count from the end that the output has now. The lines are looked for
	// in the last MaxTailScan bytes.
	TailLines int   `json:"tail_lines,omitempty"`
	TailBytes int64 `json:"tail_bytes,omitempty"`
	// Since leaves out earlier output. It is exact to a 256th of a log file, in bytes.
	Since time.Time `json:"since,omitzero"`
	// Follow waits for more until the output has ended. Otherwise the end is where the output ends
	// now.
	Follow bool `json:"follow,omitempty"`
}

// Check finds faults in a Request.
func (r *Request) Check() error {
	switch {
	case r.ID == "":
		return errors.New("id is empty: want an allocation")
	case !path.IsAbs(r.Folder):
		return fmt.Errorf("folder %q: want an absolute path", r.Folder)
	case r.Stream != Stdout && r.Stream != Stderr:
		return fmt.Errorf("stream %q: want stdout or stderr", r.Stream)
	case r.From < 0 || r.From > maxFrom:
		return fmt.Errorf("from %d: want an offset from 0 to %d", r.From, maxFrom)
	case r.TailLines < 0 || r.TailLines > MaxTailLines:
		return fmt.Errorf("tail_lines %d: want 0 to %d", r.TailLines, MaxTailLines)
	case r.TailBytes < 0:
		return fmt.Errorf("tail_bytes %d: want 0 or more", r.TailBytes)
	}
	return nil
}

func decodeRequest(line []byte) (Request, error) {
	var r Request
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return Request{}, fmt.Errorf("request: %w", err)
	}
	return r, r.Check()
}
