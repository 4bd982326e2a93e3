package yarn

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/bursar/bursar/resource"
)

// The size of a cluster and of its partitions comes from the first source that has it, because the
// later ones are wrong in some versions:
//
//  1. the scheduler's own answer: always for the FairScheduler, since Hadoop 3.1 for the
//     CapacityScheduler
//  2. totalClusterResourcesAcrossPartition of /metrics (2.10 and some of 3.x), if there is only the
//     default partition
//  3. the sum over the running machines in /nodes, by label. This answer is large on large
//     clusters, so the sum is kept until /metrics changes
//  4. available, allocated and reserved of /metrics, which cover only the default partition.
//     totalMB is not used because it leaves out reservations before 2.7.4, nor is
//     totalVirtualCores, because it adds a number of containers to cores from 2.7.4 to 3.1.0

// nodesFor is how long a sum over all machines is kept while /metrics does not change: a machine
// can get another label.
const nodesFor = 5 * time.Minute

// metrics holds the figures of /metrics for the default partition.
type metrics struct {
	memory, cpu tally // available, allocated and reserved
	active      int64 // machines; -1: not in the answer
	across      *resource.Vector
}

// nodesCache is the last sum over all machines, with the metrics at that time.
type nodesCache struct {
	of     metrics
	at     time.Time
	totals map[string]resource.Vector // nil: no sum yet
}

// size returns the size of the cluster, from the scheduler's answer if that is complete. The error
// is a *ServerError.
func (p *Provider) size(ctx context.Context, at *server, s *Scheduler) (clusterSize, error) {
	unsized := s.Unsized()
	if len(unsized) == 0 && len(s.Totals) > 0 {
		return sizeOf(s.Totals), nil
	}
	said, err := at.metrics(ctx)
	if err != nil {
		return clusterSize{}, err
	}
	var totals map[string]resource.Vector
	if across := said.defaultOnly(s, unsized); across != nil {
		totals = map[string]resource.Vector{"": *across}
	} else if totals, err = p.sumOfNodes(ctx, at, said, unsized); err != nil {
		return clusterSize{}, err
	}
	totals = maps.Clone(totals)
	maps.Copy(totals, s.Totals)
	sized := sizeOf(totals)
	sized.noMachine = said.active == 0
	return sized, nil
}

// defaultOnly returns the total of all partitions if there is only the default one: the scheduler
// names no other, and the total equals the default partition's. Nil: there may be more.
func (m metrics) defaultOnly(s *Scheduler, unsized []string) *resource.Vector {
	labelled := slices.ContainsFunc(unsized, func(partition string) bool { return partition != "" }) ||
		slices.ContainsFunc(s.Entries, func(e Entry) bool { return e.Partition != "" })
	if labelled || m.across == nil || m.across.Memory() != m.memory.sum {
		return nil
	}
	return m.across
}

// sumOfNodes returns the total by partition. If the machines cannot be listed, it returns the
// default partition from /metrics; if that is not enough, it returns an error, because an unknown
// total is not zero.
func (p *Provider) sumOfNodes(ctx context.Context, at *server, said metrics, unsized []string) (map[string]resource.Vector, error) {
	said.across = nil // not part of the comparison: the other fields suffice
	if p.nodes.totals != nil && p.nodes.of == said && p.now().Sub(p.nodes.at) < nodesFor {
		return p.nodes.totals, nil
	}
	totals, err := at.nodes(ctx)
	if err != nil {
		wrong, _ := errors.AsType[*ServerError](err)
		listable := wrong == nil || wrong.Trouble == Unreachable || wrong.Trouble == NotInCharge || wrong.Trouble == Failing
		if listable || slices.ContainsFunc(unsized, func(partition string) bool { return partition != "" }) {
			return nil, err
		}
		return map[string]resource.Vector{"": said.memory.with(said.cpu.with(resource.Vector{}, resource.CPU), resource.Memory)}, nil
	}
	p.nodes = nodesCache{of: said, at: p.now(), totals: totals}
	return totals, nil
}

// metrics asks for the figures of the cluster. The error is a *ServerError.
func (s *server) metrics(ctx context.Context) (metrics, error) {
	said := metrics{active: -1}
	there := false
	err := s.get(ctx, "/metrics", nil, func(body io.Reader) error {
		return readAnswer(body, func(r *reader, key []byte) error {
			if string(key) != "clusterMetrics" {
				return r.skip()
			}
			return r.object(func(key []byte) error {
				there = true
				return said.field(r, key)
			})
		})
	})
	if err == nil && !there {
		err = s.malformedAnswer(malformed("no clusterMetrics"))
	}
	return said, err
}

func (m *metrics) field(r *reader, key []byte) (err error) {
	switch string(key) {
	case "availableMB", "allocatedMB", "reservedMB":
		err = m.memory.add(r, mebibytes)
	case "availableVirtualCores", "allocatedVirtualCores", "reservedVirtualCores":
		err = m.cpu.add(r, cores)
	case "activeNodes":
		var n int64
		var there bool
		if n, there, err = r.integer(); there {
			m.active = n
		}
	case "totalClusterResourcesAcrossPartition":
		m.across, err = r.vector(rolePromised)
	default:
		err = r.skip()
	}
	return err
}

// tally is a sum in bytes or millicores, capped at resource.MaxQuantity. Some versions report no
// cores: a missing figure is not zero.
type tally struct {
	sum   int64
	there bool
}

// add adds the next number.
func (t *tally) add(r *reader, unit ratio) error {
	n, there, err := r.integer()
	if err != nil || !there {
		return err
	}
	q, _ := rolePromised.quantity(n, unit)
	t.sum, t.there = min(t.sum+q, resource.MaxQuantity), true
	return nil
}

// with adds the sum to a dimension of v.
func (t *tally) with(v resource.Vector, dimension string) resource.Vector {
	if !t.there {
		return v
	}
	sum, _ := v.Get(dimension)
	return v.With(dimension, min(sum+t.sum, resource.MaxQuantity))
}

// machine is one node of /nodes.
type machine struct {
	state, label string
	memory, cpu  tally
	// used and available hold the custom types, in 2.10 and since 3.1.
	used, available *resource.Vector
}

// nodes asks for the running machines and adds them up by label; a machine has at most one. The
// error is a *ServerError.
func (s *server) nodes(ctx context.Context) (map[string]resource.Vector, error) {
	totals := map[string]resource.Vector{}
	there := false
	err := s.get(ctx, "/nodes", values("states", "RUNNING"), func(body io.Reader) error {
		return readAnswer(body, func(r *reader, key []byte) error {
			if string(key) != "nodes" {
				return r.skip()
			}
			there = true
			return readList(r, "node", machineField, func(m *machine) error { return m.addTo(totals) })
		})
	})
	if err == nil && !there {
		err = s.malformedAnswer(malformed("no nodes"))
	}
	return totals, err
}

func machineField(r *reader, m *machine, key []byte) (err error) {
	switch string(key) {
	case "state":
		m.state, err = r.text()
	case "usedMemoryMB", "availMemoryMB":
		err = m.memory.add(r, mebibytes)
	case "usedVirtualCores", "availableVirtualCores":
		err = m.cpu.add(r, cores)
	case "usedResource":
		m.used, err = r.vector(rolePromised)
	case "availableResource":
		m.available, err = r.vector(rolePromised)
	case "nodeLabels":
		m.label, err = r.label()
	default:
		err = r.skip()
	}
	return err
}

// addTo adds a running machine. A server that ignores the query also returns machines in other
// states.
func (m *machine) addTo(totals map[string]resource.Vector) error {
	if m.state != "" && m.state != "RUNNING" {
		return nil
	}
	if _, known := totals[m.label]; !known && len(totals) >= maxLabels {
		return &AnswerError{Refusal: Excessive, Detail: "more than 256 partitions"}
	}
	total := m.memory.with(m.cpu.with(totals[m.label], resource.CPU), resource.Memory)
	for _, half := range []*resource.Vector{m.used, m.available} {
		if half == nil {
			continue
		}
		for _, q := range half.Custom() {
			total = (&tally{q.Value, true}).with(total, q.Name)
		}
	}
	if total.Validate() != nil {
		return &AnswerError{Refusal: Excessive, Detail: "more types of resources than are counted"}
	}
	totals[m.label] = total
	return nil
}
