package wire

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The proof that an agent's record belongs to the request survives the way to the agent, its state
// file, and back, to the nanosecond: after a restore of a store, it decides.
func TestARecordOfAGrantIsTheSameAfterItsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := storetest.Allocation(t, 7)
		message, err := proto.Marshal(AllocationMessage(&a))
		if err != nil {
			return // not UTF-8
		}
		told, kept := &bursarv1.Allocation{}, &bursarv1.Allocation{}
		if err := proto.Unmarshal(message, told); err != nil {
			t.Fatal(err)
		}
		text, err := protojson.Marshal(told)
		if err != nil {
			return // not UTF-8
		}
		if err := protojson.Unmarshal(text, kept); err != nil {
			t.Fatal(err)
		}
		back, without := grantFrom(a.ID, kept)
		if without != "" || a.Created < 0 || a.Created > ledger.MaxInstant { // no time of a ledger
			return
		}
		if back.Created != a.Created || back.Caller != a.Caller || back.RequestID != a.RequestID || back.Priority != a.Priority ||
			!back.Labels.Equal(a.Labels) || !back.Requested.Equal(a.Requested) {
			t.Fatalf("told\n%+v\nback\n%+v", a, *back)
		}
	})
}
