package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const secret = "password=hunter2"

// coded gives errors the code that they have somewhere within them.
func coded(err error) error {
	if already, ok := errors.AsType[*connect.Error](err); ok {
		return already
	}
	return connect.NewError(connect.CodeInternal, err)
}

// detailsOf is what an error has next to its words.
func detailsOf(t *testing.T, err error) (text string) {
	t.Helper()
	refused, ok := errors.AsType[*connect.Error](err)
	if !ok {
		t.Fatalf("%v is no answer", err)
	}
	for _, detail := range refused.Details() {
		message, err := detail.Value()
		if err != nil {
			t.Fatal(err)
		}
		text += protojson.Format(message)
	}
	return text
}

// Whatever the contract comes to answer with.
func TestNoProcedureAnswersWithWhatItsCallerMayNotSee(t *testing.T) {
	i := NewAuditor(AuditorOptions{Code: coded})
	bob, ops := identity.Actor{Name: "bob", Users: []string{"bob"}, Role: identity.Reader}, identity.Actor{Name: "ops", Role: identity.Operator}
	answers := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("bursar.v1", func(file protoreflect.FileDescriptor) bool {
		for s := range file.Services().Len() {
			methods := file.Services().Get(s).Methods()
			for m := range methods.Len() {
				kind, err := protoregistry.GlobalTypes.FindMessageByName(methods.Get(m).Output().FullName())
				if err != nil {
					t.Fatal(err)
				}
				answer := kind.New()
				withAllocations(answer, nil)
				full := proto.Clone(answer.Interface())
				i.redactor.redact(ops, full)
				stream := newAuditedStream(sends{}, bob, i.redactor, coded)
				if err := stream.Send(answer.Interface()); !errors.Is(err, errSent) {
					t.Fatal(err)
				}
				if text := protojson.Format(answer.Interface()); strings.Contains(text, secret) {
					t.Errorf("%s: %s", methods.Get(m).FullName(), text)
				}
				if strings.Contains(protojson.Format(full), secret) {
					answers++
				}
			}
		}
		return true
	})
	if answers < 10 {
		t.Errorf("%d procedures answer with allocations: want those of AllocationService at least", answers)
	}
}

// Whatever message of the contract an error comes to have for a detail, here or at a leader of
// another version.
func TestNoErrorHasDetailsThatItsCallerMayNotSee(t *testing.T) {
	r := newRedactor(coded)
	bob := identity.Actor{Name: "bob", Users: []string{"bob"}, Role: identity.Reader}
	details := 0
	protoregistry.GlobalTypes.RangeMessages(func(kind protoreflect.MessageType) bool {
		if kind.Descriptor().ParentFile().Package() != "bursar.v1" || kind.Descriptor().IsMapEntry() {
			return true
		}
		message := kind.New()
		withAllocations(message, nil)
		detail, err := connect.NewErrorDetail(message.Interface())
		if err != nil {
			t.Fatal(err)
		}
		refused := connect.NewError(connect.CodeFailedPrecondition, errSent)
		refused.Meta().Set("Why", "this")
		refused.AddDetail(detail)
		if strings.Contains(detailsOf(t, refused), secret) {
			details++
		}
		redacted := r.redactError(bob, fmt.Errorf("passed on: %w", refused))
		if text := detailsOf(t, redacted); strings.Contains(text, secret) {
			t.Errorf("%s: %s", kind.Descriptor().FullName(), text)
		}
		answer, ok := errors.AsType[*connect.Error](redacted)
		if !ok || answer.Code() != refused.Code() || answer.Meta().Get("Why") != "this" || len(answer.Details()) != 1 || !errors.Is(redacted, errSent) {
			t.Errorf("%s: it became %v", kind.Descriptor().FullName(), redacted)
		}
		return true
	})
	if details < 10 {
		t.Errorf("%d messages have allocations: want the answers of AllocationService at least", details)
	}
}

var errSent = errors.New("sent")

type sends struct{ connect.StreamingHandlerConn }

func (sends) Send(any) error { return errSent }

// withAllocations puts a value into every message field, an allocation that has ended into those
// that have one.
func withAllocations(message protoreflect.Message, above []protoreflect.FullName) {
	if a, ok := message.Interface().(*bursarv1.Allocation); ok {
		a.Labels, a.ErrorOutput = map[string]string{"user": "alice"}, secret
		return
	}
	name := message.Descriptor().FullName()
	if slices.Contains(above, name) {
		return
	}
	for f := range message.Descriptor().Fields().Len() {
		switch field := message.Descriptor().Fields().Get(f); {
		case messageIn(field) == nil:
		case field.ContainingOneof() != nil && !hasAllocation(messageIn(field), make(map[protoreflect.FullName]bool)):
			// of several one is set
		case field.IsMap():
			value := message.Mutable(field).Map().NewValue()
			withAllocations(value.Message(), append(above, name))
			message.Mutable(field).Map().Set(field.MapKey().Default().MapKey(), value)
		case field.IsList():
			withAllocations(message.Mutable(field).List().AppendMutable().Message(), append(above, name))
		default:
			withAllocations(message.Mutable(field).Message(), append(above, name))
		}
	}
}
