package convert_test

import (
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

func TestHowLongARequestWaits(t *testing.T) {
	waits := func(d *durationpb.Duration, async bool) *bursarv1.AllocateRequest {
		return &bursarv1.AllocateRequest{Wait: d, Async: async, Resource: &bursarv1.Resource{}}
	}
	minute := durationpb.New(time.Minute)
	for name, test := range map[string]struct {
		request any
		want    time.Duration
	}{
		"it says nothing":           {waits(nil, false), 0},
		"a minute":                  {waits(minute, false), time.Minute},
		"answered at once":          {waits(minute, true), 0},
		"before now":                {waits(durationpb.New(-time.Minute), false), 0},
		"the longest":               {waits(durationpb.New(convert.LongestWait), false), convert.LongestWait},
		"longer than any":           {waits(&durationpb.Duration{Seconds: 1 << 62}, false), convert.LongestWait},
		"none":                      {(*bursarv1.AllocateRequest)(nil), 0},
		"one that asks of a wait":   {&bursarv1.ExplainRequest{Request: waits(minute, false)}, 0},
		"nothing that can wait":     {&bursarv1.ReleaseRequest{}, 0},
		"a request that is no such": {nil, 0},
	} {
		if got := convert.Wait(test.request); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	if err := protovalidate.Validate(waits(durationpb.New(convert.LongestWait), false)); err != nil {
		t.Errorf("the contract refuses the longest wait: %v", err)
	}
	if err := protovalidate.Validate(waits(durationpb.New(convert.LongestWait+1), false)); err == nil {
		t.Error("the contract allows a longer wait")
	}
}

func TestAWaitIsShortenedToWhatIsLeft(t *testing.T) {
	const tooLong = convert.LongestWait + time.Hour
	for name, c := range map[string]struct {
		request          *bursarv1.AllocateRequest
		left, want, wait time.Duration
	}{
		"in time":                      {&bursarv1.AllocateRequest{}, 20 * time.Second, 20 * time.Second, time.Minute},
		"with more left than it wants": {&bursarv1.AllocateRequest{}, time.Hour, time.Minute, time.Minute},
		"over: it still waits":         {&bursarv1.AllocateRequest{}, -time.Second, time.Millisecond, time.Minute},
		"that does not wait":           {&bursarv1.AllocateRequest{}, time.Second, 0, 0},
		"that is followed by Get":      {&bursarv1.AllocateRequest{Async: true}, time.Second, time.Minute, time.Minute},
		"that is refused for its wait": {&bursarv1.AllocateRequest{}, time.Second, tooLong, tooLong},
	} {
		c.request.Wait = durationpb.New(c.wait)
		convert.WaitAtMost(c.request, c.left)
		if got := c.request.GetWait().AsDuration(); got != c.want {
			t.Errorf("%s: waits for %s, want %s", name, got, c.want)
		}
	}
}
