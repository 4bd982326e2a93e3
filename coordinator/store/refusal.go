package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/ledger"
	storev1 "github.com/bursar/bursar/proto/bursar/store/v1"
)

// EncodeRefusal returns the payload of a refusal's row. There is one for each: text that is none is replaced.
func EncodeRefusal(r *ledger.Refusal) ([]byte, error) {
	text := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(&storev1.RefusalRecord{
		Hash: r.Hash[:], Time: timestamp(r.At),
		Procedure: text(r.Procedure), Caller: text(r.Caller), Cause: text(r.Cause), Version: text(r.Version),
	})
	if err != nil {
		return nil, &RowError{RefusalTable, r.ID(), err}
	}
	return payload, nil
}

// DecodeRefusal reads what EncodeRefusal wrote. id is the row's key, which had no version in it once. The error is
// a *RowError.
func DecodeRefusal(id string, payload []byte) (ledger.Refusal, error) {
	record := &storev1.RefusalRecord{}
	err := unmarshal(payload, record)
	var read reader
	r := ledger.Refusal{
		At: read.instant("time", record.GetTime()), Procedure: record.GetProcedure(), Caller: record.GetCaller(),
		Cause: record.GetCause(), Version: record.GetVersion(),
	}
	if err == nil {
		err = read.err
	}
	switch {
	case err != nil:
	case len(record.GetHash()) != sha256.Size:
		err = fmt.Errorf("hash: %d bytes: want %d", len(record.GetHash()), sha256.Size)
	case r.At == 0:
		err = errors.New("time: want it to be set")
	}
	copy(r.Hash[:], record.GetHash())
	if err == nil && r.ID() != id {
		r.Unversioned = true
		if r.ID() != id {
			err = fmt.Errorf("hash: it begins with %s: want the row's id to", r.ID())
		}
	}
	if err != nil {
		return ledger.Refusal{}, &RowError{RefusalTable, id, err}
	}
	return r, nil
}

// TryRefusal is DecodeRefusal, and nothing where the row cannot be read: it refuses nothing then, and must not keep anybody from leading.
func TryRefusal(id string, payload []byte) (ledger.Refusal, error) {
	r, err := DecodeRefusal(id, payload)
	if err != nil {
		return ledger.Refusal{}, nil //nolint:nilerr // as said
	}
	return r, nil
}

// Readable leaves out what TryRefusal made of rows that cannot be read.
func Readable(list []ledger.Refusal) []ledger.Refusal {
	return slices.DeleteFunc(list, func(r ledger.Refusal) bool { return r.At == 0 })
}
