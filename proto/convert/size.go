package convert

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// Limits on what one request leaves in rows and events, in bytes of protobuf. The rules of the API
// limit each field; with all fields at their limits, an Allocate would leave 75 KB for 30 days.
// These limits are several times the size of the largest real requests, see docs/adr/0032.
const (
	// MaxAllocationSize limits a request for an allocation, a confirmation and a new entitlement.
	// With ten labels, eight long queue paths and 64 application ids they take about 1, 2 and 3
	// KiB.
	MaxAllocationSize = 8 << 10
	// MaxGrantSize limits the labels and resources in an agent's record of a grant: of a request
	// and a confirmation together. A larger record leaves out one part.
	MaxGrantSize = 2 * MaxAllocationSize
	// MaxHostSize limits the registration of a host: 64 labels of 100 bytes, and capacities of 16
	// kinds.
	MaxHostSize = 16 << 10
	// MaxQuotaSize limits a rule: a selector of 16 labels, and five vectors of 16 custom
	// dimensions.
	MaxQuotaSize = 8 << 10
	// MaxProviderSize limits the configuration of a cluster: settings are addresses, names and
	// paths of files.
	MaxProviderSize = 16 << 10
)

// CheckSize rejects a request that would leave too much in rows and events. It accepts requests
// that leave nothing, and those whose fields have sufficient rules. The error is a
// *resource.FieldError that names the largest field.
func CheckSize(request any) error {
	switch m := request.(type) {
	case *bursarv1.AllocateRequest:
		return checkSize("", m, MaxAllocationSize)
	case *bursarv1.ExplainRequest:
		return checkSize("request.", m.GetRequest(), MaxAllocationSize)
	case *bursarv1.ConfirmRequest:
		return checkSize("", m, MaxAllocationSize)
	case *bursarv1.ResizeRequest:
		return checkSize("", m, MaxAllocationSize)
	case *bursarv1.RegisterRequest:
		return checkSize("", m, MaxHostSize)
	case *bursarv1.PutRequest:
		return checkSize("quota.", m.GetQuota(), MaxQuotaSize)
	case *bursarv1.ApplyRequest:
		for i, quota := range m.GetQuotas() {
			if err := checkSize(fmt.Sprintf("quotas[%d].", i), quota, MaxQuotaSize); err != nil {
				return err
			}
		}
	case *bursarv1.PutProviderRequest:
		return checkSize("provider.", m.GetProvider(), MaxProviderSize)
	case *bursarv1.CheckProviderRequest:
		return checkSize("provider.", m.GetProvider(), MaxProviderSize)
	}
	return nil
}

// GrantSize returns the size in bytes of the labels and resources in an agent's record of a grant.
func GrantSize(m *bursarv1.Allocation) int {
	return proto.Size(&bursarv1.Allocation{Labels: m.GetLabels(), Requested: m.GetRequested(), Entitled: m.GetEntitled()})
}

func checkSize(path string, m proto.Message, most int) error {
	size := proto.Size(m)
	if size <= most {
		return nil
	}
	field, part := largestField(m.ProtoReflect())
	return &resource.FieldError{
		Field: path + field, Value: fmt.Sprintf("%d of %d bytes", part, size),
		Want: fmt.Sprintf("at most %d bytes in all fields together", most),
	}
}

// largestField returns the path and size of the largest field; it descends into single messages.
func largestField(m protoreflect.Message) (path string, size int) {
	var inner protoreflect.Message
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		alone := m.New()
		alone.Set(field, value)
		if n := proto.Size(alone.Interface()); n > size {
			path, size, inner = string(field.Name()), n, nil
			if field.Message() != nil && !field.IsMap() && !field.IsList() {
				inner = value.Message()
			}
		}
		return true
	})
	if inner != nil {
		if below, n := largestField(inner); below != "" {
			return path + "." + below, n
		}
	}
	return path, size
}
