package wire

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// The bounds on the texts of an agent's record of a grant. They are those of the rules for
// requests: the contract has no rules for the record itself.
const (
	mostApplicationIDs = 64
	longestApplication = 128
	longestAddress     = 512
	longestCaller      = 256
	longestRequestID   = 128
	longestDegraded    = 256
	longestProblem     = 512 // why a stop or a grant has failed
)

// truncated cuts a text to a number of bytes.
func truncated(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// grantFrom converts an agent's record of a grant, from which the ledger can adopt an engine that
// it does not know. It never refuses a record: then the rest of the report would be refused too,
// and the host would be lost with all its engines. It omits damaged or too large parts instead, and
// without names them. It omits the entitlement last.
func grantFrom(id ledger.ID, m *bursarv1.Allocation) (a *ledger.Allocation, without string) {
	a = &ledger.Allocation{
		ID: id, Caller: truncated(m.GetCaller(), longestCaller), State: ledger.State(m.GetState()), //nolint:gosec // seven states
		HostID: m.GetHostId(), HostAddress: m.GetHostAddress(), Priority: m.GetPriority(),
		Created: instantFrom(m.GetCreateTime()), Reserved: instantFrom(m.GetReserveTime()), Confirmed: instantFrom(m.GetConfirmTime()),
		Expires: instantFrom(m.GetExpireTime()), OverLimit: m.GetOverLimit(), Stopping: m.GetStopping(), Releasing: m.GetReleasing(), Reason: CleanText(m.GetReason()),
		Address: truncated(m.GetAddress(), longestAddress), Revision: m.GetRevision(),
	}
	a.Subordinate = ledger.IsSubordinate(a.Caller, m.GetActingUser())
	a.Start = startFrom(m)
	if len(m.GetRequestId()) <= longestRequestID { // a truncated id could be another one
		a.RequestID = m.GetRequestId()
	}
	for _, id := range m.GetApplicationIds() {
		if len(a.ApplicationIDs) < mostApplicationIDs && len(id) <= longestApplication {
			a.ApplicationIDs = append(a.ApplicationIDs, id)
		}
	}
	if p := m.GetProcess(); p != nil {
		a.Process = ProcessFrom(p)
	}
	var left []string
	a.Entitled, left = entitledFrom(m.GetEntitled())
	var err error
	room := convert.MaxGrantSize - proto.Size(m.GetEntitled())
	if a.Requested, err = convert.ResourceFromProto(m.GetRequested()); err != nil || convert.GrantSize(m) > convert.MaxGrantSize {
		a.Requested = resource.Resource{} // it is only for display
		left = append(left, "requested")
	} else {
		room -= proto.Size(m.GetRequested())
	}
	labels := labelsWithin(m.GetLabels(), room)
	if len(labels) < len(m.GetLabels()) {
		left = append(left, "labels")
	}
	a.Labels, _ = convert.LabelsFromProto(labels) // each one is valid
	if c := m.GetClaimed(); c != nil {
		claimed, _ := grantFrom(id, &bursarv1.Allocation{
			Labels: c.GetLabels(), Requested: c.GetRequested(), Entitled: c.GetEntitled(), Caller: c.GetCaller(), RequestId: c.GetRequestId(), ActingUser: c.GetActingUser(),
		})
		a.Claimed = &ledger.Claim{
			Caller: claimed.Caller, RequestID: claimed.RequestID, Subordinate: claimed.Subordinate, Labels: claimed.Labels, Requested: claimed.Requested, Entitled: claimed.Entitled,
		}
	}
	return a, strings.Join(left, ", ")
}

// entitledFrom converts the entitlement in a record, and names its damaged part: the queues, or
// all.
func entitledFrom(m *bursarv1.Resource) (entitled resource.Resource, damaged []string) {
	entitled, err := convert.ResourceFromProto(m)
	if err == nil {
		return entitled, nil
	}
	here := proto.CloneOf(m)
	here.External = nil
	if entitled, err = convert.ResourceFromProto(here); err == nil {
		return entitled, []string{"entitled.external"}
	}
	return resource.Resource{}, []string{"entitled"}
}

// labelsWithin returns the valid labels of a record that fit into room bytes. It omits the longest
// first.
func labelsWithin(labels map[string]string, room int) map[string]string {
	size := func(key string) int {
		return proto.Size(&bursarv1.Allocation{Labels: map[string]string{key: labels[key]}})
	}
	if _, err := convert.LabelsFromProto(labels); err == nil && proto.Size(&bursarv1.Allocation{Labels: labels}) <= room {
		return labels
	}
	keys := slices.SortedFunc(maps.Keys(labels), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a)+len(labels[a]), len(b)+len(labels[b])), cmp.Compare(a, b))
	})
	kept := make(map[string]string)
	for _, key := range keys {
		one := map[string]string{key: labels[key]}
		if _, err := convert.LabelsFromProto(one); err != nil {
			continue
		}
		if room -= size(key); room < 0 {
			break
		}
		kept[key] = labels[key]
	}
	return kept
}
