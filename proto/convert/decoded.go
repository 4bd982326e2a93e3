package convert

import (
	"fmt"
	"reflect"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// An element of a message takes more memory decoded than encoded: an empty one takes 2 bytes on the
// wire, and a struct with a pointer to it in memory. These are estimates, in bytes; a message
// itself takes the size of its Go type.
const (
	pointerSize  = 16  // to a message, in a slice that doubles when it grows
	textSize     = 32  // of a string in such a slice, without its bytes
	mapEntrySize = 64  // a key and a value
	objectSize   = 128 // in JSON, for any message
	valueSize    = 32  // in JSON, for any other value
)

func tooManyElements(most int64) error {
	return fmt.Errorf("body: its lists and maps take more than %d bytes of memory: want fewer elements", most)
}

// smallest is the size up to which a message needs no check: each of its elements has at least two
// bytes, and takes a few hundred in memory.
const smallest = 4 << 10

// checkBinary returns an error if the elements of a message would take more than most bytes of
// memory when decoded; 0: no limit. It allocates nothing. The decoder reports malformed messages.
func checkBinary(text []byte, message proto.Message, most int64) error {
	if most <= 0 || len(text) <= smallest {
		return nil
	}
	left := most
	if countBinary(text, message.ProtoReflect().Descriptor(), &left); left < 0 {
		return tooManyElements(most)
	}
	return nil
}

// countBinary subtracts from left the memory of a message's elements when decoded, until left is
// negative.
func countBinary(text []byte, kind protoreflect.MessageDescriptor, left *int64) {
	fields := kind.Fields()
	for len(text) > 0 && *left >= 0 {
		number, wire, n := protowire.ConsumeTag(text)
		if n < 0 {
			return
		}
		text = text[n:]
		size := protowire.ConsumeFieldValue(number, wire, text)
		if size < 0 {
			return
		}
		value := text[:size]
		text = text[size:]
		field := fields.ByNumber(number)
		if field == nil {
			continue // kept undecoded
		}
		switch {
		case field.IsMap():
			*left -= mapEntrySize
			field = field.MapValue()
		case field.IsList() && field.Message() != nil:
			*left -= pointerSize
		case field.IsList() && wire == protowire.BytesType && (field.Kind() == protoreflect.StringKind || field.Kind() == protoreflect.BytesKind):
			*left -= textSize
		}
		if inner := field.Message(); inner != nil && wire == protowire.BytesType {
			*left -= sizeOf(inner)
			within, n := protowire.ConsumeBytes(value)
			if n >= 0 {
				countBinary(within, inner, left)
			}
		}
	}
}

// sizes caches the sizes of the Go types of messages, by descriptor.
var sizes sync.Map //nolint:gochecknoglobals // a cache of what never changes

func sizeOf(kind protoreflect.MessageDescriptor) int64 {
	if size, known := sizes.Load(kind); known {
		return size.(int64) //nolint:forcetypeassert,errcheck // no other type is put there
	}
	size := int64(objectSize)
	if of, err := protoregistry.GlobalTypes.FindMessageByName(kind.FullName()); err == nil {
		size = int64(reflect.TypeOf(of.Zero().Interface()).Elem().Size()) //nolint:gosec // a few hundred
	}
	sizes.Store(kind, size)
	return size
}

// checkJSON does the same for JSON. It cannot know the type of an object before decoding.
func checkJSON(text []byte, most int64) error {
	if most <= 0 || len(text) <= smallest {
		return nil
	}
	left, quoted := most, false
	for i := 0; i < len(text) && left >= 0; i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			left -= objectSize
		case c == ',' || c == '[':
			left -= valueSize
		}
	}
	if left < 0 {
		return tooManyElements(most)
	}
	return nil
}
