package yarn

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/bursar/bursar/resource"
)

// mostPieces bounds how many machines of a partition are kept, of which none has more of all than
// another one: with memory and cpu there are few.
const mostPieces = 256

// pieces is what machines have free, by partition: those of which none has more of both memory and
// cpu than another one. Nil: that is not known.
type pieces map[string][]resource.Vector

// piecesCache is the last answer about machines.
type piecesCache struct {
	at   time.Time
	free pieces
}

// short reports whether no machine of a partition has so much, and what the one has that has most
// of the memory. If there are no machines, nothing is said of them.
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

// add adds a machine, unless another one has as much. It reports whether all can be kept.
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

// freePieces is what machines have free, as of at most piecesFor ago; nil: it is not known.
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

// freePieces asks for the running machines; nil: they are too different to be kept. The error is a
// *ServerError.
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

// freeMachine is what a machine has free.
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
