package auth

import (
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// cutAnswer makes an answer small if there is no room for it, and reports whether it could. It does
// so for operations that are done and durable: an error would say that they were not done. Reads
// are refused instead.
func cutAnswer(request, answer any) bool {
	switch m := answer.(type) {
	case *bursarv1.ApplyResponse:
		count := func(list *[]*bursarv1.Quota, more *int32) {
			*more += int32(len(*list)) //nolint:gosec // there are not that many rules
			*list = nil
		}
		count(&m.Added, &m.MoreAdded)
		count(&m.Changed, &m.MoreChanged)
		count(&m.Deleted, &m.MoreDeleted)
		return true
	case *bursarv1.SyncResponse:
		asked, ok := request.(*bursarv1.SyncRequest)
		if ok {
			cutSync(asked, m)
		}
		return ok
	}
	return false
}

// cutSync removes the content of an answer to an agent so that the agent misses nothing. The
// agent's ledger sequence stays as it was, and its tombstones are not acknowledged. If the Sync was
// a full one, the answer asks for it again.
func cutSync(asked *bursarv1.SyncRequest, m *bursarv1.SyncResponse) {
	m.Grants, m.Stops, m.Acknowledged, m.Gone, m.Complete = nil, nil, nil, nil, false
	m.LedgerSequence = asked.GetLedgerSequence()
	if asked.GetFull() && m.GetAction() != bursarv1.SyncAction_SYNC_ACTION_SHUTDOWN {
		m.Action = bursarv1.SyncAction_SYNC_ACTION_RESYNC
	}
}
