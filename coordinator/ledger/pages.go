package ledger

import "math"

// pageSize is that of Pages in bytes. The kernel keeps limits of memory in its own pages, which are
// as large or a multiple.
const pageSize = 4096

// Pages is an amount of memory in pages of 4 KiB: it takes half the bytes of a number of bytes, in
// every entry.
type Pages uint32

// PagesOf is the amount of so many bytes, rounded up, so that only 0 bytes are no page; at most
// 16 TiB.
func PagesOf(bytes int64) Pages {
	if bytes <= 0 {
		return 0
	}
	return Pages(min((bytes-1)/pageSize+1, math.MaxUint32))
}

// Bytes is the amount in bytes.
func (p Pages) Bytes() int64 { return int64(p) * pageSize }
