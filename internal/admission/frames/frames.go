// Package frames follows the frames of HTTP/2 in the bytes that a server reads from a client. It
// decodes no header and no payload: it only says where streams begin. A Scanner belongs to the one
// goroutine that reads the connection.
package frames

import "encoding/binary"

const (
	// preface begins a client's connection of HTTP/2 (RFC 9113, 3.4).
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	// headerBytes is the size of a frame's header (4.1): 24 bits of length, type, flags, stream.
	headerBytes = 9
	// data and headers are types of frames (6.1, 6.2). HEADERS begin a stream.
	data, headers = 0x0, 0x1
	// smallData is the largest payload of a frame of DATA that counts as light: it may be all
	// padding (6.1), or belong to a stream that has ended. Bodies come in frames of 16 KiB, and a
	// call with a small body ends with its answer.
	smallData = 4 << 10
)

// Scanner follows one connection from its first byte. The zero value is ready for use.
type Scanner struct {
	protocol protocol
	seen     int // bytes of the preface that have come
	header   [headerBytes]byte
	have     int    // bytes of the next header that have come
	left     uint32 // bytes of the current payload that have not come
	last     uint32 // the largest stream that has begun
}

// protocol is the protocol of a connection, as far as it is known.
type protocol int

const (
	unknown protocol = iota
	isHTTP2
	other
)

// IsHTTP2 reports whether the whole preface has come.
func (s *Scanner) IsHTTP2() bool { return s.protocol == isHTTP2 }

// Scan takes the next bytes, and returns how many streams begin in them. A stream begins with the
// end of the header of its first frame. light is how many frames begin in them that are not DATA,
// or are DATA so short that they may be useless.
func (s *Scanner) Scan(p []byte) (begun, light int) {
	for s.protocol == unknown && len(p) > 0 {
		if p[0] != preface[s.seen] {
			s.protocol = other
			break
		}
		if s.seen++; s.seen == len(preface) {
			s.protocol = isHTTP2
		}
		p = p[1:]
	}
	if s.protocol != isHTTP2 {
		return 0, 0
	}
	for len(p) > 0 {
		if skipped := min(uint32(len(p)), s.left); skipped > 0 { //nolint:gosec // a buffer
			s.left -= skipped
			p = p[skipped:]
			continue
		}
		n := copy(s.header[s.have:], p)
		s.have += n
		p = p[n:]
		if s.have < headerBytes {
			break
		}
		s.have = 0
		if s.begins() {
			begun++
		}
		if s.header[3] != data || s.left <= smallData {
			light++
		}
	}
	return begun, light
}

// begins takes a whole header of a frame, and reports whether it begins a stream. Trailers come in
// a frame of the same type, on a stream that has begun before.
func (s *Scanner) begins() bool {
	first := binary.BigEndian.Uint32(s.header[:])
	s.left = first >> 8
	stream := binary.BigEndian.Uint32(s.header[headerBytes-4:]) &^ (1 << 31)
	if s.header[3] != headers || stream <= s.last {
		return false
	}
	s.last = stream
	return true
}
