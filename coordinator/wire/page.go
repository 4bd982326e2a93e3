package wire

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/label"
)

// ErrPageToken refuses a page token that no answer to this query has given.
var ErrPageToken = errors.New("page_token: want the next_page_token of an earlier answer to the same query")

// defaultPage is the size of a page if the request does not say.
const defaultPage = 100

// PageSize is how many a request wants.
func PageSize(asked int32) int {
	if asked <= 0 {
		return defaultPage
	}
	return int(asked)
}

// PageBytes is the size at which a page is full, in bytes, however many rows were asked for: a
// slow reader keeps no more than that here.
const PageBytes = 4 << 20

// PageMost is what such a page takes at most, with what stands between and around its rows.
const PageMost = PageBytes + 64<<10

// FillPage makes messages of rows, as far as a page goes in bytes: of one at least. size is that
// of a message.
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

// A page token is a version, a fingerprint of the query that it continues, and the place to go on
// from. Only the server reads it. The fingerprint keeps a token from silently continuing another
// query.
const tokenVersion = 1

// PageToken makes a token of where a query goes on. The empty one is the place before the first:
// PagePlace reads both.
func PageToken(query uint64, place string) string {
	raw := make([]byte, 0, 9+len(place))
	raw = append(raw, tokenVersion)
	raw = binary.BigEndian.AppendUint64(raw, query)
	raw = append(raw, place...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// PagePlace reads a token; the empty one is the place before the first.
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

// Fingerprint is the FNV-1a hash of what was put in, which tells queries and requests apart. It is
// the same on every machine and in every version.
type Fingerprint uint64

// NewFingerprint returns the one of nothing: FNV's offset basis.
func NewFingerprint() Fingerprint { return 14695981039346656037 }

const fnvPrime = 1099511628211

func (f *Fingerprint) octet(b byte) { *f = (*f ^ Fingerprint(b)) * fnvPrime }

// Text adds a string and its length, so that what follows cannot be taken for a part of it.
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

// Labels adds labels and how many they are.
func (f *Fingerprint) Labels(set label.Set) {
	f.Number(int64(len(set)))
	for _, l := range set {
		f.Text(l.Key)
		f.Text(l.Value)
	}
}
