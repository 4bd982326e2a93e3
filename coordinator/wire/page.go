package wire

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/label"
)

// ErrPageToken refuses a page token that does not come from an earlier answer to this query.
var ErrPageToken = errors.New("page_token: want the next_page_token of an earlier answer to the same query")

// defaultPage is the page size of a request that gives none.
const defaultPage = 100

// PageSize returns the number of rows for a request.
func PageSize(asked int32) int {
	if asked <= 0 {
		return defaultPage
	}
	return int(asked)
}

// PageBytes is the size at which a page is full, in bytes, even if the request asks for more rows:
// it bounds the memory for a slow client.
const PageBytes = 4 << 20

// PageMost is the largest encoded size of such a page, with the bytes between and around its rows.
const PageMost = PageBytes + 64<<10

// FillPage converts rows until left bytes are used up, but at least one. size is the total size of
// the messages.
func FillPage[T any, M proto.Message](rows []T, left int, message func(*T) M) (list []M, size int) {
	for i := range rows {
		m := message(&rows[i])
		if size += proto.Size(m); size > left && len(list) > 0 {
			break
		}
		list = append(list, m)
	}
	return list, size
}

// A page token consists of a version, a fingerprint of its query, and the place at which to
// continue. Only the server reads it. The fingerprint prevents a token from silently continuing
// another query.
const tokenVersion = 1

// PageToken returns the token of a place in a query. PagePlace reads it.
func PageToken(query uint64, place string) string {
	raw := make([]byte, 0, 9+len(place))
	raw = append(raw, tokenVersion)
	raw = binary.BigEndian.AppendUint64(raw, query)
	raw = append(raw, place...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// PagePlace returns the place of a token; the empty token is the place before the first row.
func PagePlace(query uint64, token string) (place string, err error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < 10 || raw[0] != tokenVersion || binary.BigEndian.Uint64(raw[1:]) != query {
		return "", ErrPageToken
	}
	return string(raw[9:]), nil
}

// Fingerprint is an FNV-1a hash that identifies a query or a request. It is the same on every
// machine and in every version.
type Fingerprint uint64

// NewFingerprint returns the empty fingerprint: FNV's offset basis.
func NewFingerprint() Fingerprint { return 14695981039346656037 }

const fnvPrime = 1099511628211

func (f *Fingerprint) octet(b byte) { *f = (*f ^ Fingerprint(b)) * fnvPrime }

// Text adds a string and its length, so that two strings cannot be confused with one.
func (f *Fingerprint) Text(s string) {
	f.Number(int64(len(s)))
	for i := range len(s) {
		f.octet(s[i])
	}
}

// Number adds a number.
func (f *Fingerprint) Number(n int64) {
	for range 8 {
		f.octet(byte(n & 0xff))
		n >>= 8
	}
}

// Labels adds labels and their number.
func (f *Fingerprint) Labels(set label.Set) {
	f.Number(int64(len(set)))
	for _, l := range set {
		f.Text(l.Key)
		f.Text(l.Value)
	}
}
