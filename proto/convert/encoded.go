package convert

import "google.golang.org/protobuf/proto"

// Encoded is a message that caches its encodings, because many callers receive it. The codecs of
// this package accept it in place of a message.
type Encoded interface {
	// AppendEncoded appends the message to dst in the encoding of a codec. It calls marshal if that
	// encoding is not cached yet.
	AppendEncoded(dst []byte, codec string, marshal func(proto.Message) ([]byte, error)) ([]byte, error)
}
