package convert

import (
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// StrictJSON is a JSON codec for servers, like Connect's, but an unknown field is an error. A
// caller who writes "memory" for "memoryBytes" must get an error, not an engine without booked
// memory.
type StrictJSON struct {
	// MaxDecoded limits the memory for the elements of a request's lists and maps, in bytes; 0: no
	// limit.
	MaxDecoded int64
}

// Name returns the name of Connect's codec, which it replaces.
func (StrictJSON) Name() string { return "json" }

// Marshal encodes a message.
func (c StrictJSON) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend appends an encoded message to dst. Connect takes ownership of the result, but not
// of Marshal's result.
func (StrictJSON) MarshalAppend(dst []byte, message any) ([]byte, error) {
	if e, encoded := message.(Encoded); encoded {
		return e.AppendEncoded(dst, StrictJSON{}.Name(), protojson.MarshalOptions{}.Marshal)
	}
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", message)
	}
	return protojson.MarshalOptions{}.MarshalAppend(dst, m)
}

// Unmarshal decodes a message. The error is a *resource.FieldError if the value of a field is
// wrong, and otherwise names the field and its position.
func (c StrictJSON) Unmarshal(text []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no protobuf message", message)
	}
	if len(text) == 0 {
		return errors.New("want a JSON object, {} at least")
	}
	if err := checkJSON(text, c.MaxDecoded); err != nil {
		return err
	}
	err := protojson.UnmarshalOptions{}.Unmarshal(text, m)
	if err == nil {
		return nil
	}
	if !json.Valid(text) {
		return err //nolint:wrapcheck // it names the place
	}
	if fault := jsonFault("", text, m.ProtoReflect().Descriptor()); fault != nil {
		return fault
	}
	return err //nolint:wrapcheck // it names the field and its place
}
