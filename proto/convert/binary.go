package convert

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Binary is a codec for servers: protobuf as in Connect, but it refuses a request before it is
// decoded if its many small parts would take far more memory than the request itself.
type Binary struct {
	// MaxDecoded limits the memory for the elements of a request's lists and maps, in bytes; 0: no
	// limit.
	MaxDecoded int64
}

// Name is that of the codec it stands in for.
func (Binary) Name() string { return "proto" }

// IsBinary says that its text must be encoded if it is part of an address.
func (Binary) IsBinary() bool { return true }

// Marshal writes a message.
func (c Binary) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend writes a message behind what dst holds.
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

// MarshalStable writes equal messages equally, as far as protobuf can.
func (Binary) MarshalStable(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", message)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// Unmarshal reads a message.
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
