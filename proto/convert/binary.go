package convert

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Binary is a protobuf codec for servers, like Connect's. It rejects a request before decoding if
// its many small parts would take far more memory than the request itself.
type Binary struct {
	// MaxDecoded limits the memory for the elements of a request's lists and maps, in bytes; 0: no
	// limit.
	MaxDecoded int64
}

// Name returns the name of Connect's codec, which it replaces.
func (Binary) Name() string { return "proto" }

// IsBinary reports that the output must be encoded if it is part of a URL.
func (Binary) IsBinary() bool { return true }

// Marshal encodes a message.
func (c Binary) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend appends an encoded message to dst.
func (Binary) MarshalAppend(dst []byte, message any) ([]byte, error) {
	if e, encoded := message.(Encoded); encoded {
		return e.AppendEncoded(dst, Binary{}.Name(), proto.Marshal)
	}
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", message)
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, m)
}

// MarshalStable encodes equal messages equally, as far as protobuf can.
func (Binary) MarshalStable(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", message)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// Unmarshal decodes a message.
func (c Binary) Unmarshal(text []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no protobuf message", message)
	}
	if err := checkBinary(text, m, c.MaxDecoded); err != nil {
		return err
	}
	return proto.Unmarshal(text, m)
}
