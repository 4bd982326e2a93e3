package orders

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/engine"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestSignalsAreSentAndAnswered(t *testing.T) {
	for name, test := range map[string]struct {
		refuses error
		problem string
	}{
		"sent":          {nil, ""},
		"it has ended":  {&engine.SignalError{ID: "granted", Why: "its engine has ended"}, "its engine has ended"},
		"a long reason": {errors.New(strings.Repeat("ä", 2000)), strings.Repeat("ä", 500)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, standard())
			r.refuses = test.refuses
			r.orders <- &bursarv1.AttachResponse{Epoch: 5, Order: &bursarv1.AttachResponse_Signal{
				Signal: &bursarv1.SignalOrder{AllocationId: "granted", Signal: bursarv1.Signal_SIGNAL_USR2, Number: 77, Caller: "alice"},
			}}
			answer := r.next(t)
			if got := <-r.signals; got != "granted SIGNAL_USR2 coordinator: alice" {
				t.Errorf("sent: %s", got)
			}
			if answer.GetHostId() != "h1" || answer.GetIncarnation() != 3 || answer.GetAllocationId() != "granted" || answer.GetNumber() != 77 ||
				!strings.HasPrefix(answer.GetSignaled().GetProblem(), test.problem) || len(answer.GetSignaled().GetProblem()) > 1024 || answer.GetSignaled() == nil {
				t.Errorf("answered: %v", answer)
			}
		})
	}
}

// An order of an earlier leader is not carried out.
func TestSignalsOfAnEarlierLeaderAreNotSent(t *testing.T) {
	r := newRig(t, standard())
	<-r.attached
	r.orders <- &bursarv1.AttachResponse{Epoch: 4, Order: &bursarv1.AttachResponse_Signal{Signal: &bursarv1.SignalOrder{AllocationId: "granted", Signal: 15, Number: 1}}}
	<-r.attached // another stream: the agent has ended the first
	r.orders <- &bursarv1.AttachResponse{Epoch: 5, Order: &bursarv1.AttachResponse_Signal{Signal: &bursarv1.SignalOrder{AllocationId: "plain", Signal: 15, Number: 2}}}
	if answer := r.next(t); answer.GetNumber() != 2 {
		t.Errorf("%v", answer)
	}
}

// A stop goes on when the stream ends that it was ordered by.
func TestAStopOutlivesItsStream(t *testing.T) {
	r := newRig(t, standard())
	r.orders <- &bursarv1.AttachResponse{Epoch: 5, Order: &bursarv1.AttachResponse_Stop{Stop: &bursarv1.StopOrder{AllocationId: "granted"}}}
	<-r.stops
	<-r.attached
	r.orders <- &bursarv1.AttachResponse{Epoch: 4} // ends the stream
	select {
	case <-r.attached: // the next one
	case <-time.After(30 * time.Second):
		t.Fatal("no other stream")
	}
	if err := r.stopping.Err(); err != nil {
		t.Errorf("the stop has ended with its stream: %v", err)
	}
}
