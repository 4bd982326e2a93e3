package wire

import (
	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// IncidentsFrom converts an agent's incidents of an engine. It omits entries that this version does
// not know, such as a kind of a later version: the rest of the message counts for more.
func IncidentsFrom(messages []*bursarv1.Incident) (list []ledger.Incident) {
	for _, m := range messages {
		kind := m.GetKind()
		if kind < bursarv1.IncidentKind_INCIDENT_KIND_MEMORY_KILL || kind > bursarv1.IncidentKind_INCIDENT_KIND_LIMIT_NOT_HELD ||
			m.GetDimension() != resource.Memory && m.GetDimension() != resource.CPU {
			continue
		}
		list = append(list, ledger.Incident{
			Kind: ledger.IncidentKind(kind), Dimension: m.GetDimension(), Count: m.GetCount(),
			First: instantFrom(m.GetFirstTime()), Last: instantFrom(m.GetLastTime()),
			MostUsed: m.GetMostUsed(), Bound: m.GetBound(), Ongoing: m.GetOngoing(),
		})
	}
	return list
}

func incidentMessages(list []ledger.Incident) (messages []*bursarv1.Incident) {
	for i := range list {
		n := &list[i]
		messages = append(messages, &bursarv1.Incident{
			Kind: bursarv1.IncidentKind(n.Kind), Dimension: n.Dimension, Count: n.Count, FirstTime: TimeMessage(n.First), LastTime: TimeMessage(n.Last),
			MostUsed: n.MostUsed, Bound: n.Bound, Ongoing: n.Ongoing,
		})
	}
	return messages
}
