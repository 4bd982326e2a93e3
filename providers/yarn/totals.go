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

// How large a cluster is, and each of its partitions, is found in this order, since the later ones
// are wrong in some versions:
//
//  1. what the answer of the scheduler says itself: always for the FairScheduler, for the
//     CapacityScheduler since Hadoop 3.1
//  2. /metrics, totalClusterResourcesAcrossPartition (2.10 and some of 3.x), if there is only the
//     default partition
//  3. the sum over /nodes of the running machines, by their labels: large on large clusters, so it
//     is kept until /metrics changes
//  4. /metrics, available and allocated and reserved: the default partition alone. Its totalMB
//     leaves out what is reserved before 2.7.4, and its totalVirtualCores adds a number of
//     containers to cores from 2.7.4 to 3.1.0, so both are not used

// nodesFor is how long a sum over all machines is kept if /metrics does not change: a machine can
// get another label.
const nodesFor = 5 * time.Minute

// metrics is what /metrics says of the default partition.
type metrics struct {
	memory, cpu tally // available, allocated and reserved
	active      int64 // machines; -1: it did not say
	across      *resource.Vector
}

// nodesCache is the last sum over all machines, and what /metrics said then.
type nodesCache struct {
	of     metrics
	at     time.Time
	totals map[string]resource.Vector // nil: there is none
}

// size returns how large the cluster is, from the scheduler's answer if that says all. The error
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
// names no other, and the total is that of the default one. Nil: there may be more.
func (m metrics) defaultOnly(s *Scheduler, unsized []string) *resource.Vector {
	labelled := slices.ContainsFunc(unsized, func(partition string) bool { return partition != "" }) ||
		slices.ContainsFunc(s.Entries, func(e Entry) bool { return e.Partition != "" })
	if labelled || m.across == nil || m.across.Memory() != m.memory.sum {
		return nil
	}
	return m.across
}

// sumOfNodes returns the total by partition. If the machines may not or cannot be listed it is
// what /metrics says, unless that is not enough: an unknown total is not zero.
func (p *Provider) sumOfNodes(ctx context.Context, at *server, said metrics, unsized []string) (map[string]resource.Vector, error) {
	said.across = nil // for the comparison: the rest says as much
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

// tally is a sum of numbers in bytes or millicores, which stays countable. Some versions know no
// cores: a missing figure is not zero.
type tally struct {
	sum   int64
	there bool
}

// add adds the number that comes next.
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
	// used and available have the custom types, in 2.10 and since 3.1.
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

// addTo counts a machine. Others than those that run are not asked for, and come all the same from
// what does not know the question.
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
