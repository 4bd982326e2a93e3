package store

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/coordinator/ledger"
	storev1 "github.com/bursar/bursar/proto/bursar/store/v1"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// The names of the tables in a RowError.
const (
	AllocationTable = "allocation"
	HostTable       = "host"
	QuotaTable      = "quota"
	ProviderTable   = "provider"
	RefusalTable    = "refusal"
)

// AppendAllocation appends the payload of an allocation's row, a storev1.AllocationRecord. It omits
// Forget, which is a column, and the measurements of a live allocation. It refuses values that
// DecodeAllocation would refuse, so that every written row can be loaded. The error is a *RowError.
func AppendAllocation(payload []byte, a *ledger.Allocation) ([]byte, error) {
	if a.State < ledger.Waiting || a.State > ledger.Lost {
		return nil, &RowError{AllocationTable, a.ID.String(), fmt.Errorf("state %d: want one of the known", a.State)}
	}
	amounts := []*resource.Resource{&a.Requested, &a.Entitled}
	if c := a.Claimed; c != nil {
		amounts = append(amounts, &c.Requested, &c.Entitled)
	}
	for _, r := range amounts {
		if err := r.Validate(); err != nil {
			return nil, &RowError{AllocationTable, a.ID.String(), err}
		}
	}
	for i := range a.OverUse {
		if policy := a.OverUse[i].Policy; policy > ledger.PolicyKill {
			return nil, &RowError{AllocationTable, a.ID.String(), fmt.Errorf("policy %d: want one of the known", policy)}
		}
	}
	for _, i := range a.Incidents() {
		if !i.Kind.Known() {
			return nil, &RowError{AllocationTable, a.ID.String(), fmt.Errorf("incident of kind %d: want one of the known", i.Kind)}
		}
	}
	if !a.State.Live() { // live ones have no stored measurements
		if err := cmp.Or(a.Measured.Validate(), a.Peak.Vector().Validate()); err != nil {
			return nil, &RowError{AllocationTable, a.ID.String(), err}
		}
	}
	w := wire{b: payload}
	w.record(a)
	if w.invalid {
		return nil, &RowError{AllocationTable, a.ID.String(), errors.New("a text in it is not valid UTF-8")}
	}
	return w.b, nil
}

// EncodeHost returns the payload of a host's row. The error is a *RowError.
func EncodeHost(h *ledger.HostRecord) ([]byte, error) {
	err := errors.Join(h.Capacity.Validate(), h.Protected.Validate())
	if err != nil {
		return nil, &RowError{HostTable, h.ID, err}
	}
	record := &storev1.HostRecord{
		Id: h.ID, Address: h.Address, Labels: convert.LabelsToProto(h.Labels),
		Capacity: convert.VectorToProto(h.Capacity), Protected: convert.VectorToProto(h.Protected),
		Cordoned: h.Cordoned, Draining: h.Draining, Lost: h.Lost, Reason: h.Reason, RegisterTime: timestamp(h.Registered),
		Incarnation: h.Incarnation, BootId: h.BootID, Version: h.Version, Revision: h.Revision,
		StopTime: timestamp(h.StopTime),
	}
	additions, err := proto.Marshal(&storev1.Additions{
		MachineId: h.MachineID, PidNamespace: h.PIDNamespace, Left: h.Left, CordonedUntil: timestamp(h.CordonedUntil), Expected: h.Expected,
		IdentityToken: []byte(h.Token), IdentityTokenBefore: []byte(h.TokenBefore),
	})
	if err != nil {
		return nil, &RowError{HostTable, h.ID, err}
	}
	record.Capacity.ProtoReflect().SetUnknown(additions)
	payload, err := proto.Marshal(record)
	if err != nil {
		return nil, &RowError{HostTable, h.ID, err}
	}
	return payload, nil
}

// EncodeQuota returns the payload of a rule's row. The error is a *RowError.
func EncodeQuota(q *ledger.Quota) ([]byte, error) {
	quota := &bursarv1.Quota{
		Selector: convert.LabelsToProto(q.Selector.Labels()), Limit: convert.ResourceToProto(resource.NewResource(q.Limit, q.External...)),
		Guaranteed: convert.ResourceToProto(resource.NewResource(q.Guaranteed, q.GuaranteedExternal...)), Weight: q.Weight, Source: q.Source,
	}
	err := errors.Join(q.Limit.Validate(), resource.ValidateLimits(q.External), q.Guaranteed.Validate(), resource.ValidateLimits(q.GuaranteedExternal))
	if n := q.Normalization; n != nil {
		err = errors.Join(err, n.Validate())
		quota.Normalization = &bursarv1.Normalization{
			Minimum: convert.VectorToProto(n.Minimum), Increment: convert.VectorToProto(n.Increment),
			Maximum: convert.VectorToProto(n.Maximum),
		}
	}
	if err != nil {
		return nil, &RowError{QuotaTable, q.Selector.String(), err}
	}
	payload, err := proto.Marshal(&storev1.QuotaRecord{Quota: quota})
	if err != nil {
		return nil, &RowError{QuotaTable, q.Selector.String(), err}
	}
	return payload, nil
}

// EncodeProvider returns the payload of a provider's row. The error is a *RowError.
func EncodeProvider(p *ledger.ProviderRecord) ([]byte, error) {
	if p.Kind == "" || strings.Contains(p.Kind, ":") || p.Cluster == "" {
		return nil, &RowError{ProviderTable, p.String(), errors.New("want a kind, without a colon, and a cluster")}
	}
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(&storev1.ProviderRecord{Provider: &bursarv1.Provider{
		Kind: p.Kind, Cluster: p.Cluster, Default: p.Default, Settings: p.Settings, Source: p.Source,
	}})
	if err != nil {
		return nil, &RowError{ProviderTable, p.String(), err}
	}
	return payload, nil
}

// timestamp returns nil for "not yet" and "never".
func timestamp(i ledger.Instant) *timestamppb.Timestamp {
	if i == 0 {
		return nil
	}
	return timestamppb.New(i.Time())
}
