package render

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// QuantityText writes a quantity for people: 4GiB, 500m, 3.
func QuantityText(dimension string, n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	switch dimension {
	case resource.Memory, resource.AMMemory:
		return sign + MemoryText(n)
	case resource.CPU, resource.AMCPU:
		return sign + resource.FormatCPU(n)
	}
	return sign + strconv.FormatInt(n, 10)
}

// AmountText writes a quantity with its dimension: "4GiB of memory", "2 cores", "3 of gpu".
func AmountText(dimension string, n int64) string {
	switch dimension {
	case resource.CPU:
		if n == 1000 {
			return "1 core"
		}
		return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64) + " cores"
	case resource.Instances:
		return Counted(int(n), "instance", "instances")
	}
	return QuantityText(dimension, n) + " of " + dimension
}

// MemoryText is exact if the exact number is short.
func MemoryText(bytes int64) string { return resource.ReadableMemory(bytes) }

// Optional writes a quantity that may be unset.
func Optional(dimension string, n *int64) string {
	if n == nil {
		return ""
	}
	return QuantityText(dimension, *n)
}

// Share writes "used / limit", or without a limit only "used".
func Share(dimension string, used, limit *int64) string {
	switch {
	case used == nil && limit == nil:
		return ""
	case limit == nil:
		return QuantityText(dimension, *used)
	}
	n := int64(0)
	if used != nil {
		n = *used
	}
	return QuantityText(dimension, n) + " / " + QuantityText(dimension, *limit)
}

// Plus adds quantities; some of them may be unset.
func Plus(quantities ...*int64) *int64 {
	var sum *int64
	for _, n := range quantities {
		if n != nil {
			total := *n
			if sum != nil {
				total += *sum
			}
			sum = &total
		}
	}
	return sum
}

// ResourceText writes "memory=4GiB,cpu=2" and the numbers of all external parts.
func ResourceText(r *bursarv1.Resource) string {
	if r == nil {
		return ""
	}
	value, err := convert.ResourceFromProto(r)
	if err != nil {
		return "invalid: " + err.Error()
	}
	if value.IsUnset() {
		return ""
	}
	return value.String()
}

// amountsText writes a resource's own part for people, whose numbers may be rounded:
// "memory=23.5GiB,cpu=2".
func amountsText(r *bursarv1.Resource) string {
	var parts []string
	for _, dimension := range SetDimensions(OrEmpty(r)) {
		parts = append(parts, dimension+"="+QuantityOf(r, dimension))
	}
	return strings.Join(parts, ",")
}

// LabelsText writes "user=alice,creator=IDE".
func LabelsText(labels map[string]string) string {
	set, err := label.FromMap(labels)
	if err != nil {
		return fmt.Sprint(labels)
	}
	return set.Text()
}

// SelectorText writes a selector as a user types it.
func SelectorText(selector map[string]string) string {
	if len(selector) == 0 {
		return label.Any
	}
	return LabelsText(selector)
}

// AccountText names an account: "host vm-1", "quota user=alice".
func AccountText(name *bursarv1.AccountName) string {
	switch name.GetKind() {
	case bursarv1.AccountKind_ACCOUNT_KIND_HOST:
		return "host " + name.GetLabels()["host"]
	case bursarv1.AccountKind_ACCOUNT_KIND_QUOTA:
		of := "quota " + LabelsText(name.GetLabels())
		if len(name.GetLabels()) == 0 {
			of = "quota of everything"
		}
		if at := name.GetExternal(); at != nil {
			of += " in " + resource.Address{Kind: at.GetKind(), Cluster: at.GetCluster(), Path: at.GetPath()}.String()
		}
		return of
	case bursarv1.AccountKind_ACCOUNT_KIND_QUEUE:
		at := name.GetLabels()
		queue := "queue " + resource.Address{Kind: at["kind"], Cluster: at["cluster"], Path: at["path"], Partition: at["partition"]}.String()
		if user := at["user"]; user != "" {
			return "user " + spelling.Name(user, "") + " in " + queue
		}
		return queue
	case bursarv1.AccountKind_ACCOUNT_KIND_UNSPECIFIED:
	}
	return "account " + LabelsText(name.GetLabels())
}

// AllocationState is "active" for ALLOCATION_STATE_ACTIVE.
func AllocationState(s bursarv1.AllocationState) string {
	return convert.StateText(s)
}

// HostState is "healthy,cordoned". A change does not say whether the agent reports, so for a
// change it may be "cordoned" alone, or "in service".
func HostState(h *bursarv1.Host) string {
	var states []string
	if h.GetState() != bursarv1.HostState_HOST_STATE_UNSPECIFIED {
		states = append(states, strings.ToLower(strings.TrimPrefix(h.GetState().String(), "HOST_STATE_")))
	}
	switch {
	case h.GetDraining():
		states = append(states, "draining")
	case h.GetCordoned():
		states = append(states, "cordoned")
	case h.GetAgentEnded() && len(states) == 0:
		return "agent ended"
	case len(states) == 0:
		return "in service"
	}
	return strings.Join(states, ",")
}

// HostNote is why a host takes no engines, if its state does not say it all, and the dimensions of
// which it has nothing to give.
func HostNote(h *bursarv1.Host, now time.Time) string {
	notes := protectedNotes(h.GetAccount())
	if n := h.GetUnaccepted(); n > 0 {
		notes = append(notes, fmt.Sprintf("%d engines not accepted yet (bursar host accept)", n))
	}
	if cut := h.GetCut(); len(cut) > 0 {
		notes = append(notes, "announces more than it may: "+cut[0])
		if len(cut) > 1 {
			notes[len(notes)-1] += fmt.Sprintf(", and %d more", len(cut)-1)
		}
	}
	notes = append(notes, h.GetSample().GetNotes()...)
	if why := UnavailableText(h, now); !strings.Contains(HostState(h), why) {
		notes = append([]string{why}, notes...)
	}
	return strings.Join(notes, "; ")
}

// UnavailableText is why a host takes no engines. If its agent does not report, the coordinator's
// own reason is its state.
func UnavailableText(h *bursarv1.Host, now time.Time) string {
	if h.GetAgentEnded() {
		const ended = "its agent has ended"
		when := ended
		if silence := Since(h.GetLastSyncTime(), now); silence != "" {
			when += " " + silence + " ago"
		}
		reason := withLocalDeadline(strings.TrimPrefix(strings.TrimPrefix(h.GetUnavailableReason(), ended), "; "))
		if reason == "" {
			return when
		}
		return when + "; " + reason
	}
	switch h.GetState() {
	case bursarv1.HostState_HOST_STATE_SUSPECT, bursarv1.HostState_HOST_STATE_LOST:
		if silence := Since(h.GetLastSyncTime(), now); silence != "" {
			return "its agent has not reported for " + silence
		}
		return "its agent does not report"
	case bursarv1.HostState_HOST_STATE_RETURNING:
		return "its agent has not reported to this leader yet"
	case bursarv1.HostState_HOST_STATE_UNSPECIFIED, bursarv1.HostState_HOST_STATE_HEALTHY, bursarv1.HostState_HOST_STATE_EXPECTED:
	}
	return withLocalDeadline(h.GetUnavailableReason())
}

// protectedNotes lists the dimensions whose whole capacity is protected.
func protectedNotes(a *bursarv1.Account) (notes []string) {
	has, err := convert.VectorFromProto(a.GetLimit())
	if err != nil {
		return nil
	}
	kept, err := convert.VectorFromProto(a.GetProtected())
	if err != nil {
		return nil
	}
	for _, dimension := range kept.TakesAllOf(has) {
		notes = append(notes, fmt.Sprintf("all of its %s is protected: %s of %s", dimension,
			QuantityOf(a.GetProtected(), dimension), QuantityOf(a.GetLimit(), dimension)))
	}
	return notes
}

// withLocalDeadline writes the time at the end of the reason of a drain or a cordon as other times
// are written.
func withLocalDeadline(reason string) string {
	for _, before := range []string{"deadline for its engines: ", "ends by itself: "} {
		if i := strings.LastIndex(reason, before); i >= 0 {
			if t, err := time.Parse(time.RFC3339, reason[i+len(before):]); err == nil {
				return reason[:i+len(before)] + Local(t).Format(time.DateTime)
			}
		}
	}
	return reason
}

// Since writes how long ago something was: "5s", "3m", "2h5m", "4d".
func Since(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil {
		return ""
	}
	return DurationText(now.Sub(t.AsTime()))
}

// Until writes how long it is until a time; "now" if the time is over.
func Until(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil {
		return ""
	}
	if left := t.AsTime().Sub(now); left > 0 {
		return DurationText(left)
	}
	return "now"
}

// DurationText writes a duration in one or two units.
func DurationText(d time.Duration) string {
	const day = 24 * time.Hour
	d = max(0, d)
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
	}
}

// TimeText writes a time to the second in this machine's zone.
func TimeText(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return Local(t.AsTime()).Format(time.DateTime)
}

// Local converts a time to this machine's zone.
func Local(t time.Time) time.Time {
	return t.In(time.Local) //nolint:gosmopolitan // a person reads it on this machine
}

// FieldPath writes the path of a field that the contract's rules refused.
func FieldPath(path *validate.FieldPath) string {
	var b strings.Builder
	for _, element := range path.GetElements() {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(element.GetFieldName())
		switch element.WhichSubscript() { //nolint:exhaustive // maps here have text for keys
		case validate.FieldPathElement_Index_case:
			fmt.Fprintf(&b, "[%d]", element.GetIndex())
		case validate.FieldPathElement_StringKey_case:
			fmt.Fprintf(&b, "[%s]", element.GetStringKey())
		}
	}
	return b.String()
}

// Ago writes a time and how long ago that was.
func Ago(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil {
		return ""
	}
	return TimeText(t) + " (" + Since(t, now) + " ago)"
}

// DiskText writes the free space of a work directory: "12GiB free of 100GiB, 99 % of its inodes,
// too little".
func DiskText(d *bursarv1.DiskSample) string {
	text := QuantityText(resource.Memory, d.GetFreeBytes()) + " free of " + QuantityText(resource.Memory, d.GetTotalBytes())
	if d.GetTotalBytes() == 0 {
		text = "not known"
	}
	if total := d.GetTotalInodes(); total > 0 {
		text += fmt.Sprintf(", %d %% of its inodes", int64(float64(d.GetFreeInodes())/float64(total)*100))
	}
	if d.GetShort() {
		text += ", too little"
	}
	return text
}

// OrEmpty returns the resource, or an empty one for nil.
func OrEmpty(r *bursarv1.Resource) *bursarv1.Resource {
	if r == nil {
		return &bursarv1.Resource{}
	}
	return r
}

// QuantityOf writes one dimension of a resource; empty if it is unset. An available quantity may
// be below zero.
func QuantityOf(r *bursarv1.Resource, dimension string) string {
	if r == nil {
		return ""
	}
	switch dimension {
	case resource.Memory:
		return Optional(dimension, r.MemoryBytes)
	case resource.CPU:
		return Optional(dimension, r.CpuMillis)
	case resource.Instances:
		return Optional(dimension, r.Instances)
	}
	if n, set := r.GetCustom()[dimension]; set {
		return QuantityText(dimension, n)
	}
	return ""
}

// Count writes a number; empty for none.
func Count(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// Counted writes a number with its noun.
func Counted(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n) + " " + several
}

// Headroom writes the memory that a host could give away now.
func Headroom(h *bursarv1.Host) string { return Optional(resource.Memory, h.HeadroomBytes) }
