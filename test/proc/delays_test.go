package proc

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAMachineThatHasTimeDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delays := Delays(t)
		time.Sleep(time.Minute)
		if d := delays(); d != 0 {
			t.Errorf("%v, want none", d)
		}
	})
}

func TestWhatIsLateIsADelay(t *testing.T) {
	for gap, want := range map[time.Duration]time.Duration{
		0: 0, beat: 0, beat + late: 0, beat + late + 1: late + 1, beat + time.Second: time.Second,
	} {
		if got := delay(gap); got != want {
			t.Errorf("%v between two looks: a delay of %v, want %v", gap, got, want)
		}
	}
}
