package sim

import (
	"fmt"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// machine is a host: its memory, its processes, and its agent.
type machine struct {
	w      *World
	id     string
	total  int64 // bytes
	cores  int64 // thousandths
	base   int64 // used by the system, always
	others int64 // used by programs that the ledger does not know
	offer  int64 // what it lets the coordinator give away
	gpus   int64
	zone   string // its label
	// One of its work directories is full: it wants no engines.
	full   bool
	bootID string
	boots  int

	processes map[int32]*process
	launched  map[int32]*process // those that orders have started since the machine was booted
	nextPID   int32
	ticks     uint64

	link  *link
	agent *agent
	disk  agentDisk
	// epoch is the last one that its agents have seen, seenIn its leadership.
	epoch uint64

	seenIn uint64
}

// process is an engine's process tree on a machine.
type process struct {
	pid     int32
	start   uint64
	touched int64     // anonymous memory in use
	most    int64     // it will touch in the end
	cache   int64     // page cache that it filled
	excess  int64     // touched beyond what it is entitled to
	busy    bool      // it uses more CPU than that
	held    bool      // it waits to begin, for its agent
	dies    time.Time // by itself; zero: when it is told to
	id      string    // its allocation, for the story
	started *started  // nil: a launcher has started it
}

func newMachine(w *World, i int) *machine {
	m := &machine{
		w: w, id: fmt.Sprintf("h%d", i+1),
		total: (4 + w.rng.Int64N(28)) * gib, cores: (2 + w.rng.Int64N(14)) * 1000,
		base: 256 * mib, processes: make(map[int32]*process), nextPID: 100,
	}
	m.offer, m.gpus = m.total-m.base, w.rng.Int64N(3)
	m.link = w.newLink(m.id)
	m.agent = &agent{machine: m}
	return m
}

// drawZone gives the host another label, or the same one. Its agent tells when it registers next.
func (m *machine) drawZone() { m.zone = []string{"a", "a", "b"}[m.w.rng.IntN(3)] }

// boot starts the machine, and its agent with it.
func (m *machine) boot() {
	m.boots++
	m.drawZone()
	m.bootID = fmt.Sprintf("%s-boot-%d", m.id, m.boots)
	m.processes, m.launched = make(map[int32]*process), make(map[int32]*process)
	m.agent.boot()
	m.touchMemory(m.boots)
}

// touchMemory makes the processes of this boot take more memory from time to time, or end.
func (m *machine) touchMemory(boot int) {
	m.w.after(m.w.between(200*time.Millisecond, time.Second), "", func() {
		if m.boots != boot {
			return
		}
		for _, pid := range m.pids() {
			p := m.processes[pid]
			p.touched = min(p.most, p.touched+m.w.rng.Int64N(p.most/4+1))
			if m.w.chance(4) {
				p.cache = min(p.cache+m.w.rng.Int64N(gib), 2*gib)
			}
			if !p.dies.IsZero() && !m.w.now.Before(p.dies) {
				m.exit(pid, "ends by itself")
			}
		}
		switch {
		// If something keeps a probe waiting after that, it is our fault.
		case m.w.resting:
			m.others = 0
		case m.w.chance(20):
			m.others = max(0, m.w.rng.Int64N(3*gib)-gib)
		}
		m.checkMemory()
		m.touchMemory(boot)
	})
}

// used is memory that the kernel cannot take back.
func (m *machine) used() int64 {
	used := m.base
	for _, p := range m.processes {
		used += p.touched
	}
	return used
}

// checkMemory holds the purpose of all of this: as long as engines stay within their entitlement,
// a machine never runs out of memory.
func (m *machine) checkMemory() {
	if used := m.used(); used > m.total {
		m.w.failf(9, "host %s uses %d MiB of %d MiB", m.id, used/mib, m.total/mib)
	}
}

// pids are the processes in a fixed order.
func (m *machine) pids() []int32 {
	list := make([]int32, 0, len(m.processes))
	for pid := int32(100); pid < m.nextPID; pid++ {
		if m.processes[pid] != nil {
			list = append(list, pid)
		}
	}
	return list
}

// spawn starts a process that will touch so much memory.
func (m *machine) spawn(id string, most int64) *process {
	m.ticks++
	p := &process{pid: m.nextPID, start: m.ticks, most: most, touched: min(most, 8*mib), id: id}
	m.nextPID++
	m.processes[p.pid] = p
	m.w.tellf("%s: process %d of %s starts, up to %d MiB", m.id, p.pid, id, most/mib)
	return p
}

// exit ends a process, if it is still there.
func (m *machine) exit(pid int32, how string) {
	p := m.processes[pid]
	if p == nil {
		return
	}
	delete(m.processes, pid)
	m.w.tellf("%s: process %d of %s %s", m.id, pid, p.id, how)
}

// resize changes the memory that the machine offers, as an operator or a cgroup's limit would.
func (m *machine) resize() {
	m.offer = m.total - m.base - m.w.rng.Int64N(4)*gib/2
	m.w.tellf("%s: offers %d MiB", m.id, m.offer/mib)
	if m.agent.up() {
		m.agent.t.SetCapacity(m.capacity())
	}
}

// capacity is what the agent announces.
func (m *machine) capacity() *bursarv1.Resource {
	memory, cores, instances := m.offer, m.cores, int64(64)
	r := &bursarv1.Resource{MemoryBytes: &memory, CpuMillis: &cores, Instances: &instances}
	if m.gpus > 0 {
		r.Custom = map[string]int64{"gpu": m.gpus}
	}
	return r
}

// reboot takes the machine down and up again.
func (m *machine) reboot() {
	m.w.tellf("%s: reboots", m.id)
	m.agent.crash()
	m.boot()
}
