package reading

import "encoding/binary"

const (
	// MaxData bounds the data of a frame, in bytes.
	MaxData = 64 << 10
	// MaxText bounds the text of an error, in bytes.
	MaxText = 8 << 10
	// HeaderSize is the size of a frame without its data.
	HeaderSize = 17

	// Mode is the first argument of the program if it is to Serve. The second one is an id.
	Mode = "read-output"
	// EngineEnded is the byte by which the agent says that the engine and its keeper have ended:
	// the helper ends once it has read all that is there.
	EngineEnded = 'E'
)

// FrameKind is the first byte of a frame. After it there are two numbers of 8 bytes.
type FrameKind byte

const (
	// FrameStart is the first one: the offset at which the reading begins, and whether a keeper
	// has written the offsets (1 or 0).
	FrameStart FrameKind = 's'
	// FrameData has an offset, a length up to MaxData, and so many bytes.
	FrameData FrameKind = 'd'
	// FrameGap has the offsets of the first byte that is gone, and of the first one that is not.
	FrameGap FrameKind = 'g'
	// FrameEnd has the offset at which the output ends. It is the last frame.
	FrameEnd FrameKind = 'e'
	// FrameError has a Code, a length up to MaxText, and so many bytes of text. It is the last
	// frame.
	FrameError FrameKind = 'x'
)

// PutHeader writes a header.
func PutHeader(p []byte, kind FrameKind, a, b int64) {
	p[0] = byte(kind)
	binary.LittleEndian.PutUint64(p[1:], uint64(a)) //nolint:gosec // as Header reads it
	binary.LittleEndian.PutUint64(p[9:], uint64(b)) //nolint:gosec // as Header reads it
}

// Header reads a header.
func Header(p []byte) (kind FrameKind, a, b int64) {
	return FrameKind(p[0]), int64(binary.LittleEndian.Uint64(p[1:])), int64(binary.LittleEndian.Uint64(p[9:])) //nolint:gosec // the reader refuses numbers below 0
}
