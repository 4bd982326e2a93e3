package callers

import (
	"testing"
	"time"
)

// A user who is refused all the time fills no log, and hides no other user.
func TestRefusedCallsHaveBoundedRecords(t *testing.T) {
	d, now, records := denials{}, time.Unix(0, 0), 0
	for range 1000 {
		if _, ok := d.take(1, now); ok {
			records++
		}
		now = now.Add(time.Millisecond)
	}
	if left, ok := d.take(2, now); !ok || left != 0 || records != 1 {
		t.Errorf("%d records of one user; another one: %d, %v", records, left, ok)
	}
	if left, ok := d.take(1, now.Add(deniedEvery)); !ok || left != 999 {
		t.Errorf("later: %d, %v; want 999 left out", left, ok)
	}
	now = now.Add(2 * deniedEvery)
	for uid := range uint32(10 * mostDenied) {
		d.take(uid, now)
	}
	if len(d.since) > mostDenied {
		t.Errorf("%d users are remembered", len(d.since))
	}
	if _, ok := d.take(99999, now.Add(deniedEvery)); !ok {
		t.Error("later users have no records")
	}
}
