package host

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// population is a model of the kernel's processes, with their true engines.
type population struct {
	*rapid.T
	alive map[int32]*person
	// clock is in ticks; nextPID grows and wraps around like the kernel's.
	clock   uint64
	nextPID int32
	// engines by name, and the true number of ticks of their processes.
	engines []*engine
	used    map[*engine]uint64
	// counted is the sum of the forest's results.
	counted map[*engine]uint64
	// freed has the pids that were freed since the last pass: the kernel reuses them much later.
	freed map[int32]bool
	// orphaned: a process that its engine did not reap has ended, so its last ticks may be lost.
	orphaned bool
}

type person struct {
	stat
	truth *engine
	// seen: a pass has found it.
	seen bool
}

const lastPID = 60

func (p *population) fork(parent int32, truth *engine) *person {
	for tries := int32(0); ; tries++ {
		if tries > lastPID {
			return nil
		}
		p.nextPID = p.nextPID%lastPID + 1
		if p.nextPID > 1 && !p.inUse(p.nextPID) && !p.freed[p.nextPID] {
			break
		}
	}
	// Several processes start within one tick.
	p.clock += rapid.Uint64Range(0, 1).Draw(p.T, "tick")
	child := &person{truth: truth, stat: stat{
		pid: p.nextPID, parent: parent, session: 1, group: 1, state: 'S', threads: 1, start: p.clock,
	}}
	if mother := p.alive[parent]; mother != nil {
		child.session, child.group = mother.session, mother.group
	}
	p.alive[child.pid] = child
	return child
}

func (p *population) inUse(number int32) bool {
	for _, one := range p.alive {
		if one.pid == number || one.session == number || one.group == number {
			return true
		}
	}
	return false
}

// exit makes a process a zombie, and gives its children to pid 1, which reaps every child at once.
func (p *population) exit(one *person) {
	one.state = 'Z'
	for _, child := range p.alive {
		if child.parent == one.pid {
			child.parent = 1
			p.orphaned = true
			if child.state == 'Z' {
				p.gone(child)
			}
		}
	}
	if one.parent == 1 {
		p.orphaned = true
		p.gone(one)
	}
}

func (p *population) gone(one *person) {
	delete(p.alive, one.pid)
	for _, number := range []int32{one.pid, one.session, one.group} {
		if !p.inUse(number) {
			p.freed[number] = true
		}
	}
}

// draw picks a live process; nil if there is none.
func (p *population) draw() *person {
	var living []*person
	for pid := int32(1); pid <= lastPID; pid++ {
		if one := p.alive[pid]; one != nil && one.pid != 1 && one.state != 'Z' {
			living = append(living, one)
		}
	}
	if len(living) == 0 {
		return nil
	}
	return rapid.SampledFrom(living).Draw(p.T, "process")
}

func (p *population) pass(f *forest) {
	f.table.empty()
	for _, one := range p.alive {
		f.table.add(one.stat, one.pid)
	}
	f.assign(p.engines)
	clear(p.freed)
}

// check compares the forest's result with the truth.
func (p *population) check(f *forest) {
	for i := range f.table.rows {
		row := &f.table.rows[i]
		one := p.alive[row.pid]
		if row.owner == one.truth {
			continue
		}
		if row.owner != nil {
			p.Fatalf("process %d is given to %s, and is %s's", row.pid, name(row.owner), name(one.truth))
		}
		mother := f.table.row(one.parent)
		if one.seen || mother != nil && mother.owner == one.truth {
			p.Fatalf("process %d of %s is lost", row.pid, name(one.truth))
		}
	}
	for _, one := range p.alive {
		// A lost process is a stranger from now on, and so are its children.
		if row := f.table.row(one.pid); row.owner == nil {
			if one.truth != nil {
				p.orphaned = true
			}
			one.truth = nil
		}
		one.seen = true
	}
	for _, e := range p.engines {
		if e.passes == 1 {
			p.used[e] = 0
			continue
		}
		p.counted[e] += e.ticks
		if p.counted[e] > p.used[e] || !p.orphaned && p.counted[e] < p.used[e] {
			p.Fatalf("%s used %d ticks, %d were counted", name(e), p.used[e], p.counted[e])
		}
	}
}

func name(e *engine) string {
	if e == nil {
		return "nobody"
	}
	return e.key.id
}

// TestProcessesBelongToTheirEngine lets processes fork, work, lead sessions, end and be reaped in
// any order, with passes in between. No process may be assigned to a wrong engine. None may be lost
// that was seen before or whose parent is of the engine. CPU time is never counted twice; none is
// lost as long as parents reap all of their children.
func TestProcessesBelongToTheirEngine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &population{
			T: t, alive: map[int32]*person{}, used: map[*engine]uint64{}, counted: map[*engine]uint64{}, freed: map[int32]bool{},
		}
		p.alive[1] = &person{stat: stat{pid: 1, session: 1, group: 1, state: 'S', threads: 1}}
		var f forest
		p.nextPID = 1
		orderly := rapid.Bool().Draw(t, "orderly")
		t.Repeat(map[string]func(*rapid.T){
			"engine": func(t *rapid.T) {
				p.T = t
				if len(p.engines) == 3 {
					return
				}
				if root := p.fork(1, nil); root != nil {
					e := &engine{listed: true, key: engineKey{fmt.Sprintf("engine %d", len(p.engines)), root.pid, root.start}}
					root.truth = e
					p.engines = append(p.engines, e)
				}
			},
			"stranger": func(t *rapid.T) {
				p.T = t
				p.fork(1, nil)
			},
			"fork": func(t *rapid.T) {
				p.T = t
				if one := p.draw(); one != nil {
					p.fork(one.pid, one.truth)
				}
			},
			"work": func(t *rapid.T) {
				p.T = t
				if one := p.draw(); one != nil {
					ticks := rapid.Uint64Range(0, 1000).Draw(t, "ticks")
					one.own += ticks
					p.used[one.truth] += ticks
				}
			},
			"setsid": func(t *rapid.T) {
				p.T = t
				if one := p.draw(); one != nil && one.group != one.pid {
					one.session, one.group = one.pid, one.pid
				}
			},
			"setpgid": func(t *rapid.T) {
				p.T = t
				if one := p.draw(); one != nil && one.session != one.pid {
					one.group = one.pid
				}
			},
			"exit": func(t *rapid.T) {
				p.T = t
				one := p.draw()
				if one == nil {
					return
				}
				if orderly {
					// In an orderly engine only processes without children end, and never the root.
					if one.parent == 1 {
						return
					}
					for _, other := range p.alive {
						if other.parent == one.pid {
							return
						}
					}
				}
				p.exit(one)
			},
			"wait": func(t *rapid.T) {
				p.T = t
				for _, child := range p.alive {
					if mother := p.alive[child.parent]; child.state == 'Z' && child.parent != 1 && mother != nil && mother.state != 'Z' {
						mother.children += child.total()
						p.gone(child)
					}
				}
			},
			"pass": func(t *rapid.T) {
				p.T = t
				p.pass(&f)
				p.check(&f)
			},
		})
	})
}
