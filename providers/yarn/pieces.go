package yarn

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/bursar/bursar/resource"
)

// mostPieces bounds the machines that are kept for a partition. With memory and cpu there are only
// a few, because no kept machine has at least as much of both as another.
const mostPieces = 256

// pieces holds the free resources of machines, by partition. It keeps only machines that no other
// one exceeds in both memory and cpu. Nil: unknown.
type pieces map[string][]resource.Vector

// piecesCache is the latest answer about machines.
type piecesCache struct {
	at   time.Time
	free pieces
}

// short reports whether no machine of a partition has enough free resources, and returns the free
// resources of the machine with the most free memory. For a partition without machines it reports
// false.
func (p pieces) short(partition string, needs resource.Vector) (most resource.Vector, fragmented bool) {
	list := p[partition]
	if len(list) == 0 || needs.IsZero() {
		return most, false
	}
	for _, free := range list {
		if needs.Memory() <= free.Memory() && needs.CPU() <= free.CPU() {
			return most, false
		}
		if free.Memory() > most.Memory() || free.Memory() == most.Memory() && free.CPU() > most.CPU() {
			most = free
		}
	}
	return most, true
}

// add adds a machine unless another one has as much. It reports whether the machines are still few
// enough to keep.
func (p pieces) add(partition string, free resource.Vector) bool {
	list := p[partition]
	within := func(a, b resource.Vector) bool { return a.Memory() <= b.Memory() && a.CPU() <= b.CPU() }
	if slices.ContainsFunc(list, func(other resource.Vector) bool { return within(free, other) }) {
		return true
	}
	list = append(slices.DeleteFunc(list, func(other resource.Vector) bool { return within(other, free) }), free)
	p[partition] = list
	return len(list) <= mostPieces && len(p) <= maxLabels
}

// freePieces returns the free resources of machines, at most piecesFor old; nil: unknown.
func (p *Provider) freePieces(ctx context.Context, from *server, byMemory bool) pieces {
	if now := p.now(); p.pieces.at.IsZero() || now.Sub(p.pieces.at) >= piecesFor {
		if p.budget.spare() == 0 {
			return nil
		}
		p.pieces = piecesCache{at: now}
		if free, err := from.freePieces(ctx, byMemory); err == nil {
			p.pieces.free = free
		}
	}
	return p.pieces.free
}

// freePieces asks for the running machines; nil: there are too many different ones to keep. The
// error is a *ServerError.
func (s *server) freePieces(ctx context.Context, byMemory bool) (pieces, error) {
	free, all := pieces{}, true
	err := s.get(ctx, "/nodes", values("states", "RUNNING"), func(body io.Reader) error {
		return readAnswer(body, func(r *reader, key []byte) error {
			if string(key) != "nodes" {
				return r.skip()
			}
			return readList(r, "node", freeField, func(m *freeMachine) error {
				if m.state != "" && m.state != "RUNNING" || !all {
					return nil
				}
				v := resource.Vector{}.WithMemory(m.memory.sum).WithCPU(m.cpu.sum)
				if byMemory || !m.cpu.there {
					v = v.WithCPU(resource.MaxQuantity)
				}
				all = free.add(m.label, v)
				return nil
			})
		})
	})
	if !all {
		free = nil
	}
	return free, err
}

// freeMachine holds the free resources of a machine.
type freeMachine struct {
	state, label string
	memory, cpu  tally
}

func freeField(r *reader, m *freeMachine, key []byte) (err error) {
	switch string(key) {
	case "state":
		m.state, err = r.text()
	case "availMemoryMB":
		err = m.memory.add(r, mebibytes)
	case "availableVirtualCores":
		err = m.cpu.add(r, cores)
	case "nodeLabels":
		m.label, err = r.label()
	default:
		err = r.skip()
	}
	return err
}
