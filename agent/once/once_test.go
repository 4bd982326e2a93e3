package once

import (
	"errors"
	"testing"
)

func TestAnOrderIsCarriedOutOnce(t *testing.T) {
	orders := NewOrders[string](2)
	take := func(revision uint64, want Known, wantAnswer string) {
		t.Helper()
		if answer, known := orders.Take(Key{"a", revision}); known != want || answer != wantAnswer {
			t.Errorf("revision %d: known %d, answer %q; want %d, %q", revision, known, answer, want, wantAnswer)
		}
	}
	take(1, New, "")
	take(1, UnderWay, "")
	orders.Answer(Key{"a", 1}, "begun")
	take(1, Answered, "begun")
	take(2, New, "") // a later grant is another order
	orders.Forget(Key{"a", 2})
	take(2, New, "")
	take(3, New, "")
	orders.Answer(Key{"a", 3}, "failed") // there are too many
	take(1, New, "")
	take(2, UnderWay, "") // one that is under way is not forgotten
	take(3, Answered, "failed")
}

func TestAnOrderOfAnEarlierEpochIsRefused(t *testing.T) {
	for _, epoch := range []uint64{7, 8} {
		if err := CheckEpoch(epoch, 7); err != nil {
			t.Error(err)
		}
	}
	if CheckEpoch(6, 7) == nil {
		t.Error("an order of epoch 6 was taken in epoch 7")
	}
}

func TestNothingIsExecutedBeforeItIsConfirmedAndStored(t *testing.T) {
	for fails := Confirm; fails <= Begun; fails++ {
		var steps Steps
		var done []Step
		for !steps.Over() {
			step := steps.Next()
			done = append(done, step)
			if step == fails {
				steps.Done(errors.New("fails"))
				continue
			}
			steps.Done(nil)
		}
		for i, step := range done {
			if step != Step(i) {
				t.Errorf("step %d is %d", i, step)
			}
		}
		want := Failed
		if fails == Begun {
			want = Begun
		}
		if steps.Next() != want || len(done) != min(int(fails)+1, int(Begun)) {
			t.Errorf("step %d fails: %d steps were done, then %d", fails, len(done), steps.Next())
		}
	}
}
