package ledger

import (
	"testing"
	"unsafe"

	"github.com/bursar/bursar/label"
)

// A coordinator keeps an entry for each live allocation. The allocator has classes of sizes, and
// puts a word before what has pointers: one byte more than this, and each takes 896.
func TestAnEntryFitsItsSizeClass(t *testing.T) {
	if got := unsafe.Sizeof(entry{}); got > 768-8 {
		t.Errorf("an entry has %d bytes; want at most 760", got)
	}
}

// What a refused request says is not kept, and what an ended one said only while another has it.
func TestLabelsThatNobodyHasAreNotKept(t *testing.T) {
	l := New(Config{}, unplaced{})
	ask := func(text string) *entry {
		e := l.newEntry()
		e.Labels = label.Set{{Key: "team", Value: text}}
		l.link(e)
		return e
	}
	stays := ask("a")
	l.index(stays)
	set := stays.accountSet
	l.discard(ask("refused"))
	if got := set.latest.String(); got != stays.Labels.String() {
		t.Errorf("after a refusal %s is kept; want %s", got, stays.Labels)
	}
	ends := ask("b")
	l.index(ends)
	if set.latest.String() != ends.Labels.String() {
		t.Fatalf("%s is kept; want %s", set.latest, ends.Labels)
	}
	l.entries.Delete(ends.ID)
	l.discard(ends)
	if len(set.latest) > 0 {
		t.Errorf("%s is kept, which nobody has", set.latest)
	}
}
