package store_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
	"github.com/bursar/bursar/resource"
)

// stored returns the part of an allocation that a store keeps.
func stored(a ledger.Allocation) ledger.Allocation {
	if a.Notes != nil {
		a.Notes = &ledger.Notes{StopError: a.Notes.StopError, Incidents: a.Notes.Incidents}
	}
	if a.State.Live() {
		a.Measured, a.Peak, a.CPUTime, a.Unreclaimable = resource.Vector{}, ledger.Peak{}, 0, 0
	}
	return a
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := storetest.Allocation(t, ledger.ID(rapid.Uint64Min(1).Draw(t, "id")))
		payload, err := store.AppendAllocation([]byte("before"), &a)
		if err != nil {
			t.Fatal(err)
		}
		got, err := store.DecodeAllocation(a.ID, a.Forget, payload[len("before"):])
		if diff := cmp.Diff(stored(a), got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
		h := storetest.Host(t)
		if payload, err = store.EncodeHost(&h); err != nil {
			t.Fatal(err)
		}
		host, err := store.DecodeHost(h.ID, payload)
		if diff := cmp.Diff(h, host, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
		q := storetest.Quota(t)
		if payload, err = store.EncodeQuota(&q); err != nil {
			t.Fatal(err)
		}
		quota, err := store.DecodeQuota(q.Selector.String(), payload)
		if diff := cmp.Diff(q, quota, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// This test sets all fields, so it finds a field that was added to the ledger's rows and forgotten
// here.
func TestNoFieldIsForgotten(t *testing.T) {
	var a ledger.Allocation
	set(reflect.ValueOf(&a).Elem())
	a.State = ledger.Released                         // what was measured of one that lives is not stored
	a.Caller, a.Claimed.Caller = "text@h1", "text@h1" // the flag Subordinate goes with the user in it
	payload, err := store.AppendAllocation(nil, &a)
	if err != nil {
		t.Fatal(err)
	}
	gotA, err := store.DecodeAllocation(a.ID, a.Forget, payload)
	if diff := cmp.Diff(stored(a), gotA); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	var h ledger.HostRecord
	set(reflect.ValueOf(&h).Elem())
	if payload, err = store.EncodeHost(&h); err != nil {
		t.Fatal(err)
	}
	gotH, err := store.DecodeHost(h.ID, payload)
	if diff := cmp.Diff(h, gotH); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	var q ledger.Quota
	set(reflect.ValueOf(&q).Elem())
	q.External[0].Partition, q.GuaranteedExternal[0].Partition = "", "" // a limit has none
	if payload, err = store.EncodeQuota(&q); err != nil {
		t.Fatal(err)
	}
	gotQ, err := store.DecodeQuota(q.Selector.String(), payload)
	if diff := cmp.Diff(q, gotQ); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// set gives every field of a struct a value that is not its zero.
func set(v reflect.Value) {
	switch v.Interface().(type) {
	case resource.Vector:
		v.Set(reflect.ValueOf(resource.Vector{}.WithMemory(1).WithCPU(2).WithInstances(3).With("gpu", 4)))
		return
	case []resource.External:
		at := resource.Address{Kind: "yarn", Cluster: "c", Path: "root.a", Partition: "p"}
		v.Set(reflect.ValueOf(resource.NewResource(resource.Vector{}, resource.External{Address: at, Vector: resource.Vector{}.WithCPU(5)}).External))
		return
	case label.Set:
		v.Set(reflect.ValueOf(label.Of("user", "alice")))
		return
	case label.Selector:
		selector, _ := label.ParseSelector("user=*") // it is one
		v.Set(reflect.ValueOf(selector))
		return
	case label.Rule:
		rule, _ := label.ParseRule("zone in (a,b)") // it is one
		v.Set(reflect.ValueOf(rule))
		return
	case ledger.State:
		v.Set(reflect.ValueOf(ledger.Active))
		return
	case ledger.IncidentKind:
		v.Set(reflect.ValueOf(ledger.IncidentLimitNotHeld))
		return
	case ledger.PeakSource:
		v.Set(reflect.ValueOf(ledger.PeakLimit))
		return
	case ledger.OverUsePolicy:
		v.Set(reflect.ValueOf(ledger.PolicyKill))
		return
	case ledger.Phase, ledger.Fault, ledger.LeaderEndPolicy:
		v.SetUint(2) // each has a second one
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			set(field)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		set(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		set(v.Index(0))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	default:
		panic("a kind of field that this test does not know: " + v.Type().String())
	}
}

func TestStatesAreThoseOfTheContract(t *testing.T) {
	for number, name := range bursarv1.AllocationState_name {
		if got := "ALLOCATION_STATE_" + upper(ledger.State(number).String()); number != 0 && got != name {
			t.Errorf("state %d: %s in the ledger, %s in the contract", number, got, name)
		}
	}
	if n := len(bursarv1.AllocationState_name); ledger.State(n).String() != "unknown" {
		t.Errorf("the ledger knows a state %d, the contract does not", n)
	}
}

func TestPhasesAreThoseOfTheContract(t *testing.T) {
	for number := range bursarv1.Phase_name {
		if !ledger.Phase(number).Known() {
			t.Errorf("the ledger does not know phase %d", number)
		}
	}
	if n := len(bursarv1.Phase_name); ledger.Phase(n).Known() {
		t.Errorf("the ledger knows a phase %d, the contract does not", n)
	}
}

func TestPoliciesAreThoseOfTheContract(t *testing.T) {
	for number, name := range bursarv1.OverUsePolicy_name {
		if got := "OVER_USE_POLICY_" + upper(ledger.OverUsePolicy(number).String()); number != 0 && got != name {
			t.Errorf("policy %d: %s in the ledger, %s in the contract", number, got, name)
		}
	}
	if n := len(bursarv1.OverUsePolicy_name); ledger.OverUsePolicy(n).String() != "unknown" {
		t.Errorf("the ledger knows a policy %d, the contract does not", n)
	}
}

func upper(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] -= 'a' - 'A'
	}
	return string(b)
}

func TestTimesAreExact(t *testing.T) {
	a := storetest.Typical(1, ledger.Active, 1)
	for _, nanos := range []int64{0, 1, -1, 999_999_999, -999_999_999, 1e9, -1e9, math.MaxInt64, math.MinInt64, math.MinInt64 + 1} {
		a.Created, a.Lease = ledger.Instant(nanos), time.Duration(nanos)
		payload, err := store.AppendAllocation(nil, &a)
		if err != nil {
			t.Fatal(err)
		}
		got, err := store.DecodeAllocation(1, false, payload)
		if err != nil || got.Created != a.Created || got.Lease != a.Lease {
			t.Errorf("%d: created %d, lease %d, %v", nanos, got.Created, got.Lease, err)
		}
	}
}

func TestDecodingRefuses(t *testing.T) {
	negative := int64(-1)
	for name, change := range map[string]func(*storev1.AllocationRecord){
		"no allocation":          func(r *storev1.AllocationRecord) { r.Allocation = nil },
		"another id":             func(r *storev1.AllocationRecord) { r.Allocation.Id = ledger.ID(2).String() },
		"no state":               func(r *storev1.AllocationRecord) { r.Allocation.State = 0 },
		"an unknown state":       func(r *storev1.AllocationRecord) { r.Allocation.State = 99 },
		"a state that wraps":     func(r *storev1.AllocationRecord) { r.Allocation.State = 256 + 3 },
		"a field of the future":  func(r *storev1.AllocationRecord) { r.ProtoReflect().SetUnknown([]byte{0xa0, 0x06, 1}) },
		"one in the allocation":  func(r *storev1.AllocationRecord) { r.Allocation.ProtoReflect().SetUnknown([]byte{0xa0, 0x06, 1}) },
		"a negative quantity":    func(r *storev1.AllocationRecord) { r.Allocation.Entitled.MemoryBytes = &negative },
		"one of what was asked":  func(r *storev1.AllocationRecord) { r.Allocation.Requested.CpuMillis = &negative },
		"a label without a name": func(r *storev1.AllocationRecord) { r.Allocation.Labels[""] = "x" },
		"such a wish": func(r *storev1.AllocationRecord) {
			r.Wishes = &bursarv1.HostWishes{RequiredLabels: map[string]string{"": "x"}}
		},
		"a rule that is none": func(r *storev1.AllocationRecord) {
			r.Wishes = &bursarv1.HostWishes{AvoidedRules: []string{"zone within (a)"}}
		},
		"a time after 2262":   func(r *storev1.AllocationRecord) { r.Allocation.EndTime = &timestamppb.Timestamp{Seconds: 1 << 40} },
		"a time that wraps":   func(r *storev1.AllocationRecord) { r.PassedSince = &timestamppb.Timestamp{Seconds: math.MaxInt64} },
		"a time in two ways":  func(r *storev1.AllocationRecord) { r.WaitDeadline = &timestamppb.Timestamp{Nanos: 1e9} },
		"a negative part":     func(r *storev1.AllocationRecord) { r.WaitDeadline = &timestamppb.Timestamp{Seconds: 1, Nanos: -1} },
		"a duration too long": func(r *storev1.AllocationRecord) { r.Lease = &durationpb.Duration{Seconds: math.MaxInt64} },
		"an unknown policy": func(r *storev1.AllocationRecord) {
			r.Allocation.OverUse = []*bursarv1.OverUse{{Dimension: "memory", Policy: 256 + 1}}
		},
		"over-use since after 2262": func(r *storev1.AllocationRecord) {
			r.Allocation.OverUse = []*bursarv1.OverUse{{Dimension: "memory", Since: &timestamppb.Timestamp{Seconds: 1 << 40}}}
		},
		"a duration of two signs": func(r *storev1.AllocationRecord) {
			r.StopGrace = &durationpb.Duration{Seconds: 1, Nanos: -1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := storetest.Typical(1, ledger.Active, 1)
			payload, err := store.AppendAllocation(nil, &a)
			if err != nil {
				t.Fatal(err)
			}
			record := &storev1.AllocationRecord{}
			if err := proto.Unmarshal(payload, record); err != nil {
				t.Fatal(err)
			}
			change(record)
			if payload, err = proto.Marshal(record); err != nil {
				t.Fatal(err)
			}
			_, err = store.DecodeAllocation(1, false, payload)
			wantRow(t, err, store.AllocationTable, ledger.ID(1).String())
		})
	}
}

func wantRow(t *testing.T, err error, table, key string) {
	t.Helper()
	var row *store.RowError
	if !errors.As(err, &row) || row.Table != table || row.Key != key || row.Err == nil {
		t.Fatalf("got %v, want a *RowError for %s %q", err, table, key)
	}
}

// Rows that could not be loaded are not written: the coordinator would not start any more.
func TestEncodingRefuses(t *testing.T) {
	for name, change := range map[string]func(*ledger.Allocation){
		"no state":                 func(a *ledger.Allocation) { a.State = 0 },
		"an unknown state":         func(a *ledger.Allocation) { a.State = ledger.Lost + 1 },
		"a negative quantity":      func(a *ledger.Allocation) { a.Entitled.Vector = a.Entitled.WithMemory(-1) },
		"one of what was asked":    func(a *ledger.Allocation) { a.Requested.Vector = a.Requested.WithMemory(-1) },
		"a text that is not UTF-8": func(a *ledger.Allocation) { a.Reason = "\xff" },
		"an unknown policy":        func(a *ledger.Allocation) { a.OverUse = []ledger.OverUse{{Policy: ledger.PolicyKill + 1}} },
		"a dimension not in UTF-8": func(a *ledger.Allocation) { a.OverUse = []ledger.OverUse{{Dimension: "\xff"}} },
	} {
		a := storetest.Typical(1, ledger.Active, 1)
		change(&a)
		_, err := store.AppendAllocation(nil, &a)
		t.Run(name, func(t *testing.T) { wantRow(t, err, store.AllocationTable, a.ID.String()) })
	}
	_, err := store.EncodeHost(&ledger.HostRecord{ID: "h", Capacity: resource.Vector{}.WithCPU(-1)})
	wantRow(t, err, store.HostTable, "h")
	_, err = store.EncodeQuota(&ledger.Quota{Limit: resource.Vector{}.WithCPU(-1)})
	wantRow(t, err, store.QuotaTable, "*")
	for _, name := range []ledger.ClusterName{{Kind: "yarn"}, {Cluster: "prod"}, {Kind: "a:b", Cluster: "prod"}, {Kind: "yarn", Cluster: "\xff"}} {
		_, err = store.EncodeProvider(&ledger.ProviderRecord{ClusterName: name})
		wantRow(t, err, store.ProviderTable, name.String())
	}
}

// TestARefusalIsWrittenWhateverItSays: the text of a panic must not keep a coordinator from
// leading again.
func TestARefusalIsWrittenWhateverItSays(t *testing.T) {
	want := ledger.Refusal{
		Hash: [32]byte{1, 2}, At: 1, Procedure: "/Allocate", Caller: "\xff\x00alice", Cause: "lost \xc3", Version: "1.2",
	}
	payload, err := store.EncodeRefusal(&want)
	if err != nil {
		t.Fatal(err)
	}
	want.Caller, want.Cause = "\uFFFD\x00alice", "lost \uFFFD"
	if got, err := store.DecodeRefusal(want.ID(), payload); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	before := want
	before.Unversioned = true
	if got, err := store.DecodeRefusal("0102000000000000", payload); err != nil || got != before || got.ID() != "0102000000000000" {
		t.Errorf("with the key that rows had before: %+v, %v; want %+v", got, err, before)
	}
	young := want
	young.Version = "1.3"
	_, err = store.DecodeRefusal(young.ID(), payload)
	wantRow(t, err, store.RefusalTable, young.ID())
	other := ledger.Refusal{Hash: [32]byte{9}}
	_, err = store.DecodeRefusal(other.ID(), payload)
	wantRow(t, err, store.RefusalTable, other.ID())
	_, err = store.DecodeRefusal(want.ID(), nil)
	wantRow(t, err, store.RefusalTable, want.ID())
	timeless, err := store.EncodeRefusal(&ledger.Refusal{Hash: want.Hash})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.DecodeRefusal(want.ID(), timeless)
	wantRow(t, err, store.RefusalTable, want.ID())
}

func TestProvidersAreOfTheirRow(t *testing.T) {
	want := ledger.ProviderRecord{
		ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "prod"}, Default: true, Source: "api",
		Settings: map[string]string{"addresses": "http://rm1:8088", "interval": "5s"},
	}
	payload, err := store.EncodeProvider(&want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := store.DecodeProvider("yarn:prod", payload)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	_, err = store.DecodeProvider("yarn:test", payload)
	wantRow(t, err, store.ProviderTable, "yarn:test")
	future, err := proto.Marshal(&storev1.ProviderRecord{Provider: &bursarv1.Provider{Kind: "yarn", Cluster: "prod"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.DecodeProvider("yarn:prod", append(future, 0xa0, 0x06, 1))
	wantRow(t, err, store.ProviderTable, "yarn:prod")
	_, err = store.DecodeProvider(":", nil)
	wantRow(t, err, store.ProviderTable, ":")
}

func TestTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := store.Position{Ended: ledger.Instant(rapid.Int64().Draw(t, "ended")), ID: ledger.ID(rapid.Uint64().Draw(t, "id"))}
		if got, err := store.ParseToken(want.Token()); err != nil || got != want {
			t.Fatalf("%v, %v; want %v", got, err, want)
		}
	})
}

// FuzzDecode decodes any bytes as any row: it gives a *RowError that names the row, or a value that
// is equal after it is written and read again.
func FuzzDecode(f *testing.F) {
	a := storetest.Typical(7, ledger.Active, 1)
	payload, err := store.AppendAllocation(nil, &a)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	host, err := store.EncodeHost(&ledger.HostRecord{ID: "h", Labels: label.Of("zone", "a"), Capacity: resource.Vector{}.WithCPU(1)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(host)
	quota, err := store.EncodeQuota(&ledger.Quota{Limit: resource.Vector{}.WithCPU(1), Normalization: &resource.Normalization{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(quota)
	provider, err := store.EncodeProvider(&ledger.ProviderRecord{ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "prod"}, Default: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(provider)
	refusal, err := store.EncodeRefusal(&ledger.Refusal{Hash: [32]byte{1}, At: 1, Procedure: "/Allocate", Caller: "alice"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(refusal)
	f.Fuzz(func(t *testing.T, payload []byte) {
		original := slices.Clone(payload)
		if a, err := store.DecodeAllocation(7, true, payload); err != nil {
			wantRow(t, err, store.AllocationTable, ledger.ID(7).String())
		} else {
			again, err := store.AppendAllocation(nil, &a)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := store.DecodeAllocation(7, true, again); err != nil || !reflect.DeepEqual(a, b) {
				t.Fatalf("%v (-first +second):\n%s", err, cmp.Diff(a, b))
			}
		}
		if h, err := store.DecodeHost("h", payload); err != nil {
			wantRow(t, err, store.HostTable, "h")
		} else if _, err := store.EncodeHost(&h); err != nil {
			t.Fatal(err)
		}
		if q, err := store.DecodeQuota("*", payload); err != nil {
			wantRow(t, err, store.QuotaTable, "*")
		} else if _, err := store.EncodeQuota(&q); err != nil {
			t.Fatal(err)
		}
		if p, err := store.DecodeProvider("yarn:prod", payload); err != nil {
			wantRow(t, err, store.ProviderTable, "yarn:prod")
		} else if _, err := store.EncodeProvider(&p); err != nil {
			t.Fatal(err)
		}
		var none ledger.Refusal
		if r, err := store.DecodeRefusal(none.ID(), payload); err != nil {
			wantRow(t, err, store.RefusalTable, none.ID())
		} else if _, err := store.EncodeRefusal(&r); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(payload, original) {
			t.Fatal("the payload was changed")
		}
	})
}
