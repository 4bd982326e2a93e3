package auth

import (
	"errors"
	"maps"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// redactor removes sensitive fields from answers, and from the details of errors, if the caller may
// not see them. The contract marks these fields with the option debug_redact. The redactor finds
// them by the contract's descriptors, so that a new procedure or a new detail needs no code. Any
// goroutine may use it.
type redactor struct {
	// fields lists, for each message of the contract, its message fields that contain a sensitive
	// field at any depth.
	fields map[protoreflect.FullName][]protoreflect.FieldDescriptor
	// sensitive lists, for each message of the contract, its own sensitive fields, except for
	// messages that isDecided reports.
	sensitive map[protoreflect.FullName][]protoreflect.FieldDescriptor
	// code gives an error its code and details.
	code func(error) error
}

func newRedactor(code func(error) error) *redactor {
	r := &redactor{
		code: code, fields: make(map[protoreflect.FullName][]protoreflect.FieldDescriptor),
		sensitive: make(map[protoreflect.FullName][]protoreflect.FieldDescriptor),
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("bursar.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Messages().Len() {
			r.addFields(file.Messages().Get(i))
		}
		return true
	})
	return r
}

func (r *redactor) addFields(message protoreflect.MessageDescriptor) {
	if _, known := r.fields[message.FullName()]; known {
		return
	}
	r.fields[message.FullName()] = nil
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		inner := messageIn(field)
		if isSensitive(field) && !isDecided(message) {
			r.sensitive[message.FullName()] = append(r.sensitive[message.FullName()], field)
			continue
		}
		if inner == nil {
			continue
		}
		r.addFields(inner)
		if !isDecided(message) && hasSensitive(inner, make(map[protoreflect.FullName]bool)) {
			r.fields[message.FullName()] = append(r.fields[message.FullName()], field)
		}
	}
}

// messageIn returns the message type of a field, or of its map values; nil if there is none.
func messageIn(field protoreflect.FieldDescriptor) protoreflect.MessageDescriptor {
	if field.IsMap() {
		field = field.MapValue()
	}
	return field.Message()
}

// isSensitive reports whether the contract marks a field as sensitive.
func isSensitive(field protoreflect.FieldDescriptor) bool {
	options, ok := field.Options().(*descriptorpb.FieldOptions)
	return ok && options.GetDebugRedact()
}

// isDecided reports whether redactMessage decides about the sensitive fields of a message, and of
// its submessages, by its content. In all other messages, sensitive fields are removed for every
// caller.
func isDecided(message protoreflect.MessageDescriptor) bool {
	return message.FullName() == (&bursarv1.Allocation{}).ProtoReflect().Descriptor().FullName()
}

// hasSensitive reports whether a message has a sensitive field at any depth.
func hasSensitive(message protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[message.FullName()] {
		return false
	}
	seen[message.FullName()] = true
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		if isSensitive(field) {
			return true
		}
		if inner := messageIn(field); inner != nil && hasSensitive(inner, seen) {
			return true
		}
	}
	return false
}

// redact removes from an answer the fields that the actor may not see.
func (r *redactor) redact(actor identity.Actor, answer any) {
	if message, ok := answer.(proto.Message); ok {
		r.redactMessage(actor, message.ProtoReflect())
	}
}

// redactError adds the code and the details for callers to an error, and removes from the details
// the fields that the actor may not see. It omits a detail of a type that this version does not
// know, such as one from a newer leader, because it cannot know its content.
func (r *redactor) redactError(actor identity.Actor, err error) error {
	whole, ok := errors.AsType[*connect.Error](r.code(err))
	if !ok || len(whole.Details()) == 0 {
		return err
	}
	redacted := connect.NewError(whole.Code(), whole.Unwrap())
	maps.Copy(redacted.Meta(), whole.Meta())
	for _, detail := range whole.Details() {
		message, err := detail.Value()
		if err != nil {
			continue
		}
		r.redact(actor, message)
		if d, err := connect.NewErrorDetail(message); err == nil { // it was just decoded
			redacted.AddDetail(d)
		}
	}
	return redacted
}

func (r *redactor) redactMessage(actor identity.Actor, message protoreflect.Message) {
	if a, ok := message.Interface().(*bursarv1.Allocation); ok {
		redactAllocation(actor, a)
	}
	for _, field := range r.sensitive[message.Descriptor().FullName()] {
		message.Clear(field)
	}
	for _, field := range r.fields[message.Descriptor().FullName()] {
		if !message.Has(field) {
			continue
		}
		switch value := message.Get(field); {
		case field.IsMap():
			value.Map().Range(func(_ protoreflect.MapKey, value protoreflect.Value) bool {
				r.redactMessage(actor, value.Message())
				return true
			})
		case field.IsList():
			for i := range value.List().Len() {
				r.redactMessage(actor, value.List().Get(i).Message())
			}
		default:
			r.redactMessage(actor, value.Message())
		}
	}
}

func redactAllocation(actor identity.Actor, a *bursarv1.Allocation) {
	a.Reason, a.ErrorOutput = convert.ErrorOutput(a.GetReason(), a.GetErrorOutput(), a.GetExitStatus() != nil)
	if !hasOutput(a) || access.MaySeeOutput(actor, convert.RightsOf(a)) {
		return
	}
	a.ErrorOutput = ""
	for _, t := range a.GetLaunch().GetTries() {
		t.ErrorOutput = ""
	}
}

// hasOutput reports whether an allocation contains output of an engine.
func hasOutput(a *bursarv1.Allocation) bool {
	return a.GetErrorOutput() != "" || slices.ContainsFunc(a.GetLaunch().GetTries(), func(t *bursarv1.LaunchTry) bool { return t.GetErrorOutput() != "" })
}
