package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/ledger"
	storev1 "github.com/bursar/bursar/proto/bursar/store/v1"
)

// EncodeRefusal returns the payload of a refusal's row. It never fails: invalid text is replaced.
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

// DecodeRefusal reads a payload of EncodeRefusal. id is the row's key; keys of older versions
// contain no version. The error is a *RowError.
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
			err = fmt.Errorf("hash: it begins with %s: want the row's id to begin so", r.ID())
		}
	}
	if err != nil {
		return ledger.Refusal{}, &RowError{RefusalTable, id, err}
	}
	return r, nil
}

// Needless reports whether an error names a row that a leader does not need: an unreadable refusal
// refuses nothing.
func Needless(err error) bool {
	row, named := errors.AsType[*RowError](err)
	return named && row.Table == RefusalTable
}
