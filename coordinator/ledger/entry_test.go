package ledger

import (
	"testing"
	"unsafe"
)

// A coordinator keeps an entry for each live allocation. The allocator has classes of sizes, and
// puts a word before what has pointers: one byte more than this, and each takes 896.
func TestAnEntryFitsItsSizeClass(t *testing.T) {
	if got := unsafe.Sizeof(entry{}); got > 768-8 {
		t.Errorf("an entry has %d bytes; want at most 760", got)
	}
}
