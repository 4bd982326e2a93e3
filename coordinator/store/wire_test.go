package store_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/label"
	storev1 "github.com/bursar/bursar/proto/bursar/store/v1"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// The encoding without the message is equal to the message's, and as short as possible.
func TestPayloadIsTheMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := storetest.Allocation(t, ledger.ID(rapid.Uint64Min(1).Draw(t, "id")))
		payload, err := store.AppendAllocation(nil, &a)
		if err != nil {
			t.Fatal(err)
		}
		want, got := message(&a), &storev1.AllocationRecord{}
		if err := proto.Unmarshal(payload, got); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(want, got) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
		if shortest := proto.Size(want); len(payload) > shortest {
			t.Fatalf("%d bytes, want %d", len(payload), shortest)
		}
	})
}

// measured is a measurement, nil if there is none.
func measured(v resource.Vector) *bursarv1.Resource {
	if v.IsUnset() {
		return nil
	}
	return convert.VectorToProto(v)
}

// message encodes the payload of an allocation's row with the protobuf package.
func message(a *ledger.Allocation) *storev1.AllocationRecord {
	record := &storev1.AllocationRecord{
		Allocation: &bursarv1.Allocation{
			Id: a.ID.String(), RequestId: a.RequestID, Caller: a.Caller,
			State:     bursarv1.AllocationState(a.State),
			Labels:    convert.LabelsToProto(a.Labels),
			Requested: convert.ResourceToProto(a.Requested), Entitled: convert.ResourceToProto(a.Entitled),
			HostId: a.HostID, HostAddress: a.HostAddress, Priority: a.Priority,
			CreateTime: asTimestamp(a.Created), ReserveTime: asTimestamp(a.Reserved), ConfirmTime: asTimestamp(a.Confirmed),
			EndTime: asTimestamp(a.Ended), ExpireTime: asTimestamp(a.Expires),
			Reason: a.Reason, Revision: a.Revision, OverLimit: a.OverLimit, Stopping: a.Stopping,
			Address: a.Address, ApplicationIds: a.ApplicationIDs,
		},
		RequestHash:    a.RequestHash,
		ReservationTtl: asDuration(a.ReservationTTL), Lease: asDuration(a.Lease), StopGrace: asDuration(a.StopGrace),
		WaitDeadline: asTimestamp(a.WaitDeadline), PassedSince: asTimestamp(a.PassedSince),
		Async: a.Async, StopReason: a.StopReason, GrantRevision: a.GrantRevision,
	}
	additions := &storev1.Additions{
		ErrorOutput: a.ErrorOutput, StopError: a.StopError(), MemoryLimitBytes: a.MemoryLimit.Bytes(), ActingUser: a.ActingUser(),
		Releasing: a.Releasing, Launched: a.Process.Launched,
	}
	if end := a.LeaderEnd; end != nil {
		additions.LeaderEnd = &bursarv1.LeaderEnd{Time: asTimestamp(end.Time), Policy: bursarv1.LeaderEndPolicy(end.Policy)}
		if e := end.Exit; e != nil {
			additions.LeaderEnd.ExitStatus = &bursarv1.ExitStatus{Code: e.Code, Signal: e.Signal, OutOfMemory: e.OutOfMemory}
		}
	}
	if s := a.Start; s != nil {
		additions.Name, additions.Phase, additions.PhaseTime, additions.PhaseReason = s.Name, bursarv1.Phase(s.Phase), asTimestamp(s.PhaseSince), s.PhaseReason
		if launch := s.Launch; launch != nil {
			additions.LaunchRow, additions.LaunchRowBytes, additions.Watched = uint64(launch.Row), int64(launch.RowBytes), launch.Watched
			additions.Launch = &bursarv1.Launch{Account: launch.Account, Program: launch.Program, LogDirectory: launch.LogDirectory, Retries: launch.Retries}
			if launch.Successor != 0 {
				additions.Launch.SuccessorId = launch.Successor.String()
			}
			for _, try := range launch.Tries {
				additions.Launch.Tries = append(additions.Launch.Tries, &bursarv1.LaunchTry{
					HostId: try.HostID, Time: asTimestamp(try.At), Reason: try.Reason, Executed: try.Executed, ErrorOutput: try.ErrorOutput,
					Fault: bursarv1.LaunchFault(try.Fault),
				})
			}
		}
	}
	if !a.State.Live() {
		additions.Measured, additions.MeasuredPeak = measured(a.Measured), measured(a.Peak.Vector())
		additions.MeasuredPeakSource, additions.CpuTime, additions.UnreclaimableBytes = bursarv1.PeakSource(a.Peak.Source), asDuration(a.CPUTime), a.Unreclaimable
	}
	if c := a.Claimed; c != nil {
		additions.Claimed = &bursarv1.Claim{
			Labels: convert.LabelsToProto(c.Labels), Requested: convert.ResourceToProto(c.Requested), Entitled: convert.ResourceToProto(c.Entitled),
			Caller: c.Caller, RequestId: c.RequestID, ActingUser: c.ActingUser(),
		}
	}
	for _, i := range a.Incidents() {
		additions.Incidents = append(additions.Incidents, &bursarv1.Incident{
			Kind: bursarv1.IncidentKind(i.Kind), Dimension: i.Dimension, Count: i.Count, FirstTime: asTimestamp(i.First), LastTime: asTimestamp(i.Last),
			MostUsed: i.MostUsed, Bound: i.Bound, Ongoing: i.Ongoing,
		})
	}
	if more, err := (proto.MarshalOptions{Deterministic: true}).Marshal(additions); err == nil {
		record.Allocation.Requested.ProtoReflect().SetUnknown(more)
	}
	if p := a.Process; p != (ledger.Process{}) {
		record.Allocation.Process = &bursarv1.Process{Pid: p.PID, StartTime: p.StartTime, Cgroup: p.Cgroup, BootId: p.BootID, Verified: p.Verified}
	}
	if e := a.Exit; e != nil {
		record.Allocation.ExitStatus = &bursarv1.ExitStatus{Code: e.Code, Signal: e.Signal, OutOfMemory: e.OutOfMemory}
	}
	for _, u := range a.OverUse {
		record.Allocation.OverUse = append(record.Allocation.OverUse, &bursarv1.OverUse{
			Dimension: u.Dimension, Used: u.Used, Entitled: u.Entitled, Since: asTimestamp(u.Since),
			Policy: bursarv1.OverUsePolicy(u.Policy), StopTime: asTimestamp(u.StopTime),
		})
	}
	if w := a.Wishes; w != nil {
		record.Wishes = &bursarv1.HostWishes{
			Id: w.Host, RequiredLabels: convert.LabelsToProto(w.Required), PreferredLabels: convert.LabelsToProto(w.Preferred),
			Avoid: w.Avoid,
		}
		if r := w.Rules; r != nil {
			record.Wishes.RequiredRules, record.Wishes.PreferredRules, record.Wishes.AvoidedRules = ruleTexts(r.Required), ruleTexts(r.Preferred), ruleTexts(r.Avoided)
		}
	}
	return record
}

func ruleTexts(rules []label.Rule) (texts []string) {
	for _, rule := range rules {
		texts = append(texts, rule.String())
	}
	return texts
}

func asTimestamp(i ledger.Instant) *timestamppb.Timestamp {
	if i == 0 {
		return nil
	}
	return timestamppb.New(i.Time())
}

func asDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
