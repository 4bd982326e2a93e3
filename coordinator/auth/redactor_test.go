package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/bursar/bursar/internal/access"
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

// detailsOf returns the details of an error as text.
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

// callers returns a caller of each kind of each role, and whether it may see the output of alice's
// engines. The maker of a forwarded call is another actor.
func callers() map[string]testCaller {
	agent := identity.Actor{Name: "agent1", Role: identity.Agent, Host: "h1"}
	peer := identity.Actor{Name: "c1", Role: identity.Coordinator}
	alice, bob := identity.Actor{Name: "alice", Users: []string{"alice"}, Role: identity.Submitter}, identity.Actor{Name: "bob", Users: []string{"bob", ""}, Role: identity.Submitter}
	onHost := func(a identity.Actor) identity.Actor {
		a.Name, a.Host = a.Name+"@h1", "h1"
		return a
	}
	callers := map[string]testCaller{
		"alice": {alice, alice, true}, "bob": {bob, bob, false},
		"gateway":  {actor: identity.Actor{Name: "gateway", Anyone: true, Role: identity.Submitter}, sees: true},
		"reader":   {actor: identity.Actor{Name: "web", Role: identity.Reader}},
		"operator": {actor: identity.Actor{Name: "ops", Role: identity.Operator}, sees: true},
		"admin":    {actor: identity.Actor{Name: "root", Role: identity.Admin, Anyone: true, Admin: true}, sees: true},
		"agent":    {actor: agent}, "coordinator": {actor: peer},
		"alice by an agent":             {agent, onHost(alice), true},
		"bob by an agent":               {agent, onHost(bob), false},
		"a trusted caller by an agent":  {agent, onHost(identity.Actor{Name: "root", Anyone: true, Role: identity.Submitter}), true},
		"alice by a coordinator":        {peer, alice, true},
		"bob by a coordinator":          {peer, bob, false},
		"an agent by a coordinator":     {peer, agent, false},
		"a reader by a coordinator":     {peer, identity.Actor{Name: "web", Role: identity.Reader}, false},
		"a reader by one of 2bcc988b":   {peer, identity.Actor{Name: "web", Role: identity.Reader, Anyone: true}, false},
		"an operator by a coordinator":  {peer, identity.Actor{Name: "ops", Role: identity.Operator}, true},
		"a coordinator, by a successor": {peer, identity.Actor{Name: "c2", Role: identity.Coordinator, Anyone: true}, false},
	}
	for name, c := range callers {
		if c.maker.Name == "" {
			c.maker = c.actor
			callers[name] = c
		}
	}
	return callers
}

type testCaller struct {
	maker, actor identity.Actor
	sees         bool
}

// Every procedure, every caller, and every field that the contract marks as sensitive.
func TestNoProcedureAnswersWithWhatItsCallerMayNotSee(t *testing.T) {
	i := NewAuditor(AuditorOptions{Code: coded})
	roles := make(map[identity.Role]bool)
	answers := 0
	for _, method := range methods() {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Output().FullName())
		if err != nil {
			t.Fatal(err)
		}
		if whole := kind.New(); hasSensitive(method.Output(), make(map[protoreflect.FullName]bool)) {
			withSecrets(whole, nil)
			if !strings.Contains(protojson.Format(whole.Interface()), secret) {
				t.Fatalf("%s: the test fills in no sensitive field", method.FullName())
			}
			answers++
		}
		procedure := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
		for name, c := range callers() {
			roles[c.actor.Role] = true
			actor, err := access.RuleOf(procedure).Permit(c.maker, c.actor, procedure)
			if err != nil {
				continue // is shown nothing
			}
			for _, old := range []bool{false, true} {
				unary, streamed := kind.New(), kind.New()
				for _, answer := range []protoreflect.Message{unary, streamed} {
					withSecrets(answer, nil)
					if old {
						secretsOfOldAgents(answer)
					}
				}
				had := strings.Contains(protojson.Format(unary.Interface()), secret)
				i.redactor.redact(actor, unary.Interface())
				stream := newAuditedStream(sends{}, actor, i.redactor, coded)
				if err := stream.Send(streamed.Interface()); !errors.Is(err, errSent) {
					t.Fatal(err)
				}
				for _, answer := range []protoreflect.Message{unary, streamed} {
					text := protojson.Format(answer.Interface())
					if shown := strings.Contains(text, secret); shown != (c.sees && had) {
						t.Errorf("%s shows it to %s: %v, want %v: %s", procedure, name, shown, c.sees, text)
					}
				}
			}
		}
	}
	if answers < 10 {
		t.Errorf("%d procedures answer with sensitive fields: want those of AllocationService at least", answers)
	}
	for _, role := range identity.Roles() {
		if !roles[role] {
			t.Errorf("no caller has the role %s", role)
		}
	}
}

// A sensitive field of an answer needs a decision for its message. Without one it is hidden from
// all callers, including its owner.
func TestEverySensitiveFieldOfAnAnswerIsDecided(t *testing.T) {
	for _, method := range methods() {
		var walk func(message protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool)
		walk = func(message protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) {
			if seen[message.FullName()] {
				return
			}
			seen[message.FullName()] = true
			for f := range message.Fields().Len() {
				field := message.Fields().Get(f)
				if isSensitive(field) && !isDecided(message) {
					t.Errorf("%s answers with %s, which is sensitive: want a decision in redactMessage", method.FullName(), field.FullName())
				}
				if inner := messageIn(field); inner != nil && !isDecided(message) {
					walk(inner, seen)
				}
			}
		}
		walk(method.Output(), make(map[protoreflect.FullName]bool))
	}
	// redactAllocation decides about these.
	decided := []protoreflect.FullName{"bursar.v1.Allocation.error_output", "bursar.v1.LaunchTry.error_output"}
	var found []protoreflect.FullName
	seen := make(map[protoreflect.FullName]bool)
	var walk func(message protoreflect.MessageDescriptor)
	walk = func(message protoreflect.MessageDescriptor) {
		if seen[message.FullName()] {
			return
		}
		seen[message.FullName()] = true
		for f := range message.Fields().Len() {
			field := message.Fields().Get(f)
			if isSensitive(field) {
				found = append(found, field.FullName())
			}
			if inner := messageIn(field); inner != nil {
				walk(inner)
			}
		}
	}
	walk((&bursarv1.Allocation{}).ProtoReflect().Descriptor())
	slices.Sort(found)
	if diff := cmp.Diff(decided, found); diff != "" {
		t.Errorf("sensitive fields of an allocation (-decided +there are):\n%s", diff)
	}
}

// The contract marks these fields. A missing field would be a leak in every other test.
func TestSensitiveFieldsOfTheContract(t *testing.T) {
	var got []string
	protoregistry.GlobalTypes.RangeMessages(func(kind protoreflect.MessageType) bool {
		fields := kind.Descriptor().Fields()
		for f := range fields.Len() {
			if field := fields.Get(f); kind.Descriptor().ParentFile().Package() == "bursar.v1" && (isSensitive(field) || strings.Contains(string(field.Name()), "output")) {
				got = append(got, strings.TrimPrefix(string(field.FullName()), "bursar.v1."))
			}
		}
		return true
	})
	slices.Sort(got)
	want := []string{
		"Allocation.error_output", "AttachResponse.send_output", "CommandCheck.command", "EngineEnd.error_output", "LaunchFailed.error_output", "LaunchRequest.command", "LaunchRequest.environment",
		"LaunchSecrets.variables", "LaunchSpec.command", "LaunchSpec.environment", "LaunchSpec.script", "LaunchTry.error_output", "OrderLogsRequest.ticket",
		"RegisterRequest.identity_token", "ReleaseRequest.error_output", "SendOutputRequest.output", "SendOutputRequest.ticket", "StartRequest.secrets",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The audit log identifies the object of a call, and has no field that the contract marks as
// sensitive.
func TestAuditLogHasNoSensitiveFieldOfARequest(t *testing.T) {
	requests := 0
	for _, method := range methods() {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
		if err != nil {
			t.Fatal(err)
		}
		request := kind.New()
		withSecrets(request, nil)
		if strings.Contains(protojson.Format(request.Interface()), secret) {
			requests++
		}
		if start, is := request.Interface().(*bursarv1.StartRequest); is && len(start.GetLaunch().GetCommand()) > 0 {
			start.Launch.Command = append([]string{"/usr/bin/python3"}, start.GetLaunch().GetCommand()...) // the program is in its allocation, too
		}
		if target, id := targetOf(request.Interface()); strings.Contains(target+id, secret) {
			t.Errorf("%s: %q, %q", method.FullName(), target, id)
		}
	}
	if requests < 3 {
		t.Errorf("%d requests have sensitive fields: want Release, Sync and Launch at least", requests)
	}
}

// methods are all procedures of the contract.
func methods() (all []protoreflect.MethodDescriptor) {
	protoregistry.GlobalFiles.RangeFilesByPackage("bursar.v1", func(file protoreflect.FileDescriptor) bool {
		for s := range file.Services().Len() {
			for m := range file.Services().Get(s).Methods().Len() {
				all = append(all, file.Services().Get(s).Methods().Get(m))
			}
		}
		return true
	})
	return all
}

// An error may have any message of the contract as a detail, here or at a leader of another
// version.
func TestNoErrorHasDetailsThatItsCallerMayNotSee(t *testing.T) {
	r := newRedactor(coded)
	bob := identity.Actor{Name: "bob", Users: []string{"bob"}, Role: identity.Reader}
	details := 0
	protoregistry.GlobalTypes.RangeMessages(func(kind protoreflect.MessageType) bool {
		if kind.Descriptor().ParentFile().Package() != "bursar.v1" || kind.Descriptor().IsMapEntry() {
			return true
		}
		message := kind.New()
		withSecrets(message, nil)
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
		t.Errorf("%d messages have sensitive fields: want the answers of AllocationService at least", details)
	}
}

var errSent = errors.New("sent")

type sends struct{ connect.StreamingHandlerConn }

func (sends) Send(any) error { return errSent }

// withSecrets sets every message field, and puts a secret into every sensitive field. Allocations
// belong to alice.
func withSecrets(message protoreflect.Message, above []protoreflect.FullName) {
	name := message.Descriptor().FullName()
	if slices.Contains(above, name) {
		return
	}
	if a, ok := message.Interface().(*bursarv1.Allocation); ok {
		a.Labels = map[string]string{"user": "alice"}
	}
	for f := range message.Descriptor().Fields().Len() {
		field := message.Descriptor().Fields().Get(f)
		of := func(value protoreflect.Value) protoreflect.Value {
			if inner, ok := value.Interface().(protoreflect.Message); ok {
				withSecrets(inner, append(above, name))
				return value
			}
			if _, ok := value.Interface().([]byte); ok {
				return protoreflect.ValueOfBytes([]byte(secret))
			}
			return protoreflect.ValueOfString(secret)
		}
		switch {
		case !isSensitive(field) && (messageIn(field) == nil || field.ContainingOneof() != nil && !hasSensitive(messageIn(field), make(map[protoreflect.FullName]bool))):
			// of several one is set
		case field.IsMap():
			value := message.Mutable(field).Map()
			value.Set(field.MapKey().Default().MapKey(), of(value.NewValue()))
		case field.IsList():
			value := message.Mutable(field).List()
			value.Append(of(value.NewElement()))
		default:
			message.Set(field, of(message.NewField(field)))
		}
	}
}

// secretsOfOldAgents puts the output of each engine in the reason, like agents of an earlier
// version.
func secretsOfOldAgents(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case messageIn(field) == nil:
		case field.IsMap():
			value.Map().Range(func(_ protoreflect.MapKey, value protoreflect.Value) bool {
				secretsOfOldAgents(value.Message())
				return true
			})
		case field.IsList():
			for i := range value.List().Len() {
				secretsOfOldAgents(value.List().Get(i).Message())
			}
		default:
			secretsOfOldAgents(value.Message())
		}
		return true
	})
	if a, ok := message.Interface().(*bursarv1.Allocation); ok {
		a.Reason, a.ErrorOutput, a.ExitStatus = "exit code 1: "+secret, "", &bursarv1.ExitStatus{Code: new(int32(1))}
	}
}
