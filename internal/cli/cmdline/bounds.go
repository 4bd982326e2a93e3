package cmdline

import (
	"fmt"
	"strings"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/bursar/bursar/internal/cli/failure"
)

// WithinBounds refuses a duration that the contract does not allow for a field of a request, and
// names the flag. Zero is not set.
func WithinBounds(flag string, value time.Duration, request proto.Message, field protoreflect.Name) error {
	if value == 0 {
		return nil
	}
	rules, err := protovalidate.ResolveFieldRules(request.ProtoReflect().Descriptor().Fields().ByName(field))
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	bounds := rules.GetDuration()
	if value < 0 {
		return failure.Usagef("%s %s: want a duration that is not negative", flag, Hours(value))
	}
	if least := bounds.GetGte().AsDuration(); value < least {
		return failure.Usagef("%s %s: want at least %s", flag, Hours(value), Hours(least))
	}
	if most := bounds.GetLte().AsDuration(); most > 0 && value > most {
		return failure.Usagef("%s %s: want at most %s", flag, Hours(value), Hours(most))
	}
	return nil
}

// Hours writes 168h, not 168h0m0s.
func Hours(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
