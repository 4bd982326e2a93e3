package ledger

import "github.com/bursar/bursar/resource"

func (l *Ledger) configure(ClusterName)   {}
func (l *Ledger) unconfigure(ClusterName) {}

// ReportCluster takes in what was read of a cluster. The error is a *NotFoundError: there is no provider for it any more.
func (l *Ledger) ReportCluster(now Instant, r ClusterReport) error {
	l.begin(now)
	if l.provider(r.ClusterName) == nil {
		return &NotFoundError{What: "provider", ID: r.String()}
	}
	return nil
}

// ClusterSilent says that the cluster could not be read. What was read last stays good until it is too old, or with forget is
// forgotten at once.
func (l *Ledger) ClusterSilent(now Instant, name ClusterName, reason string, forget bool) { l.begin(now) }

// Applications returns the ids of active allocations with a part in the cluster, sorted, no id twice.
func (l *Ledger) Applications(name ClusterName) []string { return nil }

// Queues yields the queues after an address, by address.
func (l *Ledger) Queues(after resource.Address, f func(QueueInfo) bool) {}

// Queue returns a queue.
func (l *Ledger) Queue(at resource.Address) (QueueInfo, error) {
	return QueueInfo{}, &NotFoundError{What: "queue", ID: at.String()}
}

// Clusters returns all clusters, by name.
func (l *Ledger) Clusters() []ClusterInfo {
	list := make([]ClusterInfo, 0, len(l.providers))
	for _, p := range l.providers {
		list = append(list, ClusterInfo{ClusterName: p.ClusterName, Configured: true, Unavailable: "not read yet"})
	}
	return list
}
