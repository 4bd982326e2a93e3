package servers

import (
	"context"
	"strconv"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/bursar/bursar/internal/cli/failure"
)

// checkEncoding refuses requests whose texts are not UTF-8, and says which. The library would say
// the field alone, and after a failed call.
func checkEncoding() connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if msg, ok := req.Any().(proto.Message); ok {
				if wrong := invalidText(msg.ProtoReflect(), ""); wrong != nil {
					return nil, wrong
				}
			}
			return next(ctx, req)
		}
	})
}

// invalidText finds the first text of a message that is not UTF-8; nil if there is none.
func invalidText(msg protoreflect.Message, path string) (wrong *failure.NotUTF8Error) {
	msg.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		at := path + string(field.Name())
		switch {
		case field.IsMap():
			value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				name := key.String()
				if !utf8.ValidString(name) {
					wrong = &failure.NotUTF8Error{Field: at, Value: name}
				} else {
					wrong = invalidValue(field.MapValue(), value, at+"["+name+"]")
				}
				return wrong == nil
			})
		case field.IsList():
			for i := range value.List().Len() {
				if wrong = invalidValue(field, value.List().Get(i), at+"["+strconv.Itoa(i)+"]"); wrong != nil {
					break
				}
			}
		default:
			wrong = invalidValue(field, value, at)
		}
		return wrong == nil
	})
	return wrong
}

// invalidValue is invalidText for one value of a field.
func invalidValue(field protoreflect.FieldDescriptor, value protoreflect.Value, path string) *failure.NotUTF8Error {
	switch field.Kind() { //nolint:exhaustive // nothing else has text
	case protoreflect.StringKind:
		if text := value.String(); !utf8.ValidString(text) {
			return &failure.NotUTF8Error{Field: path, Value: text}
		}
	case protoreflect.MessageKind:
		return invalidText(value.Message(), path+".")
	}
	return nil
}
