package frames

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2"
	"pgregory.net/rapid"
)

func write(t rapid.TB, f func(*http2.Framer) error) []byte {
	var out bytes.Buffer
	if err := f(http2.NewFramer(&out, nil)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// For any split of the bytes, each stream begins once, at the end of its first frame's header, and
// each light frame at the end of its own.
func TestStreamsAndLightFramesBeginWithTheirHeaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := []byte(http2.ClientPreface)
		begins, lights := make(map[int]bool), make(map[int]bool) // offsets
		stream := uint32(1)
		for range rapid.IntRange(0, 30).Draw(t, "frames") {
			payload := make([]byte, rapid.SampledFrom([]int{0, 1, 40, smallData, smallData + 1, 500}).Draw(t, "payload"))
			kind := rapid.IntRange(0, 6).Draw(t, "kind")
			lights[len(all)+headerBytes] = kind != 2 || len(payload) <= smallData
			old := 1 + 2*rapid.Uint32Range(0, stream/2).Draw(t, "old")
			all = append(all, write(t, func(f *http2.Framer) error {
				switch kind {
				case 0:
					stream += 2
					begins[len(all)+headerBytes] = true
					return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: payload})
				case 1:
					if old > stream || stream == 1 {
						old = stream
					}
					if stream == 1 {
						return f.WriteSettings()
					}
					return f.WriteHeaders(http2.HeadersFrameParam{StreamID: min(old, stream), BlockFragment: payload, EndStream: true, EndHeaders: true})
				case 2:
					return f.WriteData(stream, false, payload)
				case 3:
					return f.WriteRSTStream(stream, http2.ErrCodeCancel)
				case 4:
					return f.WritePing(false, [8]byte{})
				case 5:
					return f.WriteContinuation(stream, false, payload)
				default:
					return f.WriteRawFrame(http2.FrameType(200), 0, 1<<30, payload)
				}
			})...)
		}
		var s Scanner
		for at := 0; at < len(all); {
			n := min(len(all)-at, rapid.IntRange(1, 60).Draw(t, "piece"))
			want, wantLight := 0, 0
			for end := at + 1; end <= at+n; end++ {
				if begins[end] {
					want++
				}
				if lights[end] {
					wantLight++
				}
			}
			if got, light := s.Scan(all[at : at+n]); got != want || light != wantLight {
				t.Fatalf("bytes %d to %d: %d streams and %d light frames begin, want %d and %d", at, at+n, got, light, want, wantLight)
			}
			at += n
		}
		if !s.IsHTTP2() {
			t.Fatal("the preface was not seen")
		}
	})
}

func TestOtherProtocolsHaveNoStreams(t *testing.T) {
	for _, sent := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01", "PRI * HTTP/2.0\r\n\r\nSN\r\n\r\n\x00\x00\x00\x01\x04\x00\x00\x00\x01", "PRI"} {
		var s Scanner
		if n, light := s.Scan([]byte(sent)); n+light != 0 || s.IsHTTP2() {
			t.Errorf("%q: %d streams, %d light frames, HTTP/2 %t", sent, n, light, s.IsHTTP2())
		}
	}
}
