package store

import (
	"cmp"
	"log/slog"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Broken is an allocation's row with an unreadable column.
type Broken struct {
	ID    ledger.ID
	Ended bool // it has ended, according to its column
	Cause error
}

// Recall reads the payloads of such rows, which repeat all columns. It returns the request ids to
// remember of allocations that ended since a time. If the payload of an ended row is unreadable
// too, its request id is lost, and that is logged. A row that is live, or may be, is a *RowError:
// without it, its resources would be granted to others.
func Recall(broken []Broken, since ledger.Instant, read func(ledger.ID) (LiveRow, error), log *slog.Logger) ([]ledger.Remembered, error) {
	var list []ledger.Remembered
	for i := range broken {
		b := &broken[i]
		row, err := read(b.ID)
		if err != nil {
			return nil, err
		}
		a, err := DecodeAllocation(b.ID, row.Forget != 0, row.Payload)
		switch {
		case err != nil && !b.Ended, err == nil && a.State.Live():
			return nil, b.Err()
		case err == nil && !a.Forget && a.RequestID != "" && EndOf(&a) >= since:
			list = append(list, ledger.Remembered{
				Caller: CallerOf(&a), RequestID: a.RequestID, RequestHash: a.RequestHash, ID: a.ID, Ended: EndOf(&a),
			})
		}
	}
	if len(broken) > 0 {
		log.Warn("rows of ended allocations cannot be read in full: a request id of theirs may not be remembered; "+
			"each can be taken out with bursar store set-aside allocation ID",
			"rows", len(broken), "first", broken[0].ID.String(), "error", broken[0].Cause)
	}
	return list, nil
}

// EndedOf returns the request id to remember of a single row: as it was read, or from its payload
// if broken is not nil. ErrNotFound: it is live, or its payload is unreadable.
func EndedOf(r ledger.Remembered, broken *Broken, read func(ledger.ID) (LiveRow, error), log *slog.Logger) (ledger.Remembered, error) {
	if broken != nil {
		list, err := Recall([]Broken{*broken}, 0, read, log)
		if err != nil || len(list) == 0 {
			return ledger.Remembered{}, cmp.Or(err, ErrNotFound)
		}
		return list[0], nil
	}
	if r.Ended == 0 {
		return ledger.Remembered{}, ErrNotFound
	}
	return r, nil
}

// Err names the row.
func (b *Broken) Err() error { return &RowError{AllocationTable, b.ID.String(), b.Cause} }
