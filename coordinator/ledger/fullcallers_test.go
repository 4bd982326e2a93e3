package ledger_test

import (
	"fmt"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
)

// A caller is listed from when it has little left until it has more.
func TestCallersAreFullWhileTheyHaveLittleLeft(t *testing.T) {
	const most = 512 << 10
	w := newLiveWorld(t, ledger.Config{CallerLiveBytes: most}, "h1")
	fullOnly := func(want ...string) {
		t.Helper()
		var got []string
		for _, full := range w.ledger.FullCallers() {
			got = append(got, full.Caller)
			if full.Bytes <= full.Most*9/10 || full.Bytes > full.Most {
				t.Errorf("%s has %d of %d bytes", full.Caller, full.Bytes, full.Most)
			}
		}
		if n := w.ledger.Counts().CallersFull; fmt.Sprint(got) != fmt.Sprint(want) || n != len(want) {
			t.Errorf("full are %q, %d of them; want %q", got, n, want)
		}
		w.audit()
	}
	fill := func(caller, host string) (ids []ledger.ID) {
		for range 1000 {
			a, err := w.allocate(caller, "", host, 1, 0)
			if err != nil {
				return ids
			}
			ids = append(ids, a.ID)
		}
		t.Fatal("there is no bound")
		return nil
	}
	fullOnly()
	mallory := fill("mallory", "")
	fullOnly(`caller "mallory"`)
	for _, id := range mallory[:14] { // of some 2 KiB; a twentieth is 26
		w.release(id)
	}
	fullOnly()
	mallory = append(mallory[14:], fill("mallory", "")...)
	one := fill("one@h1", "h1")
	fullOnly(`caller "mallory"`, `caller "one@h1"`)
	fill("two@h1", "h1")
	fullOnly(`caller "mallory"`, `caller "one@h1"`, `caller "two@h1"`, "callers of host h1")
	for _, id := range one[:14] {
		w.release(id)
	}
	fullOnly(`caller "mallory"`, `caller "two@h1"`)
	for _, id := range mallory {
		w.release(id)
	}
	fullOnly(`caller "two@h1"`)
}
