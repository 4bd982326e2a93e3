package convert

import "google.golang.org/protobuf/proto"

// Encoded is a message that keeps its encodings, because many callers get it. The codecs of this
// package take it in place of a message.
type Encoded interface {
	// AppendEncoded appends the message in the encoding of a codec behind what dst holds. If it was
	// not encoded so before, marshal does it.
	AppendEncoded(dst []byte, codec string, marshal func(proto.Message) ([]byte, error)) ([]byte, error)
}
