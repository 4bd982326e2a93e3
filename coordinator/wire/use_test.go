package wire_test

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The numbers of sources are the same on the wire, in the ledger and in the store.
func TestPeakSourcesHaveTheNumbersOfTheContract(t *testing.T) {
	for number := range bursarv1.PeakSource_name {
		source := bursarv1.PeakSource(number)
		if got := wire.PeakSourceFrom(source); int32(got) != number {
			t.Errorf("%s is %d", source, got)
		}
	}
	for _, other := range []bursarv1.PeakSource{-1, 4, math.MaxInt32} {
		if got := wire.PeakSourceFrom(other); got != ledger.PeakUnknown {
			t.Errorf("%d is %d", other, got)
		}
	}
}

func TestProcessorTimeThatCannotBeIsNotKnown(t *testing.T) {
	for _, test := range []struct {
		said *durationpb.Duration
		want time.Duration
	}{
		{durationpb.New(time.Second), time.Second},
		{nil, 0},
		{durationpb.New(-time.Second), 0},
		{&durationpb.Duration{Seconds: 1, Nanos: -1}, 0},
		{&durationpb.Duration{Seconds: math.MaxInt64}, 0},
		{durationpb.New(math.MaxInt64), 0},
	} {
		if got := wire.CPUTimeFrom(test.said); got != test.want {
			t.Errorf("%v: %s, want %s", test.said, got, test.want)
		}
	}
}
