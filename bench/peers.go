package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bursar/bursar/bench/performance"
	"github.com/bursar/bursar/label"
)

// side is one of the systems that take turns.
type side struct {
	name string
	turn func(ctx context.Context, clients int) (performance.Turn, error)
}

// comparison is a run of the workloads that peers can run too, side by side.
type comparison struct {
	*run

	results *performance.Results
	began   time.Time
	waited  time.Duration // total wait for a core on this machine, at the beginning
}

// Each of these suites runs one workload, on ours and on the peers that were built. Systems take
// turns in one run; a ratio is that of medians, ours to theirs.

func peersClosed(ctx context.Context, r *run) error {
	return r.comparePeers(ctx, performance.Closed, "pairs/s", (*comparison).closed)
}

func peersDeep(ctx context.Context, r *run) error {
	return r.comparePeers(ctx, performance.Deep, "pairs/s", (*comparison).deep)
}

func peersBurst(ctx context.Context, r *run) error {
	return r.comparePeers(ctx, performance.Burst, "grants/s", (*comparison).bursts)
}

func (r *run) comparePeers(ctx context.Context, workload, unit string, measure func(*comparison, context.Context) error) error {
	for _, name := range peerNames() {
		if r.peers[name] == "" {
			r.note("peers-"+workload+"/"+name, "not built; make bench-peers builds it")
		}
	}
	if len(r.peerList()) == 0 {
		return nil
	}
	c := &comparison{run: r, results: &performance.Results{}}
	c.results.AddSystem(performance.Ledger, r.version)
	c.results.AddSystem(performance.Durable, r.version)
	c.results.Runs = []performance.Run{{Workload: workload, Machine: machine()}}
	c.began, c.waited = time.Now(), waited()
	if err := measure(c, ctx); err != nil {
		return err
	}
	if err := c.save(); err != nil {
		return err
	}
	r.peerLines(c.results, workload, unit)
	return nil
}

// save writes the results so far: some bursts take minutes, and a user may interrupt the last of
// them.
func (c *comparison) save() error {
	run, share := &c.results.Runs[0], (waited()-c.waited).Seconds()/time.Since(c.began).Seconds()
	run.Date, run.Waited = c.began.Format(time.DateOnly), math.Round(1000*share)/1000
	if c.run.results == "" {
		return nil
	}
	return c.results.Merge(c.run.results)
}

func peerNames() []string { return []string{performance.YuniKorn, performance.Nomad} }

// peerList returns the peers that can be started.
func (r *run) peerList() (list []string) {
	for _, name := range peerNames() {
		if r.peers[name] != "" {
			list = append(list, name)
		}
	}
	return list
}

// startPeers starts all peers with the same cluster, and pauses them.
func (c *comparison) startPeers(ctx context.Context, names []string, cluster *peerCluster) (list []*peer, err error) {
	for _, name := range names {
		p, err := c.startPeer(ctx, name, cluster)
		if err != nil {
			return nil, errors.Join(err, stopPeers(list))
		}
		list = append(list, p)
		c.results.AddSystem(name, p.version)
		if err := p.pause(); err != nil {
			return nil, errors.Join(err, stopPeers(list))
		}
	}
	return list, nil
}

func stopPeers(list []*peer) (err error) {
	for _, p := range list {
		err = errors.Join(err, p.stop())
	}
	return err
}

// takeTurns gives each side turns with each number of clients, in rounds. The first round is a
// warm-up.
func (c *comparison) takeTurns(ctx context.Context, w *workload, name, prefix string, sides []side) error {
	for round := range c.rounds(w.Rounds + 1) {
		for _, clients := range w.Clients {
			for _, s := range sides {
				runtime.GC()
				turn, err := s.turn(ctx, clients)
				if err != nil {
					return err
				}
				if round > 0 {
					c.results.Add(name, prefix+"x"+strconv.Itoa(clients), s.name, turn)
				}
			}
		}
	}
	return nil
}

// closed runs workloads/closed-loop.yaml.
func (c *comparison) closed(ctx context.Context) error {
	w, err := readWorkload("closed-loop")
	if err != nil {
		return err
	}
	for _, hosts := range w.Fleets {
		if err := c.closedOn(ctx, w, hosts); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) closedOn(ctx context.Context, w *workload, hosts int) (err error) {
	dir := filepath.Join(c.dir, fmt.Sprintf("peers-%d", hosts))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("a place for the store: %w", err)
	}
	inMemory, err := newLockedLedger(w, hosts)
	if err != nil {
		return err
	}
	onDisk, err := newDurable(ctx, w, hosts, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inMemory.close(), onDisk.close()) }()
	cluster, err := w.cluster(hosts, w.loopApps(slices.Max(w.Clients)))
	if err != nil {
		return err
	}
	peers, err := c.startPeers(ctx, c.peerList(), cluster)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopPeers(peers)) }()
	sides, err := c.sides(w, map[string]system{performance.Ledger: inMemory, performance.Durable: onDisk}, peers)
	if err != nil {
		return err
	}
	return c.takeTurns(ctx, w, performance.Closed, strconv.Itoa(hosts), sides)
}

// sides returns the systems that run a closed loop, ours first.
func (c *comparison) sides(w *workload, ours map[string]system, peers []*peer) ([]side, error) {
	sets, err := w.sets()
	if err != nil {
		return nil, err
	}
	request, err := w.request()
	if err != nil {
		return nil, err
	}
	var list []side
	for _, name := range []string{performance.Ledger, performance.Durable} {
		s, found := ours[name]
		if !found {
			continue
		}
		list = append(list, side{name, func(ctx context.Context, clients int) (performance.Turn, error) {
			before, err := cpuTime()
			if err != nil {
				return performance.Turn{}, err
			}
			t, err := closedTurn(ctx, s, sets, request, clients, c.period(w.Duration))
			if err != nil {
				return performance.Turn{}, err
			}
			after, err := cpuTime()
			return performance.Turn{
				Rate: t.rate(), P50: percentile(t.latencies, 0.5), P99: percentile(t.latencies, 0.99), CPU: each(after-before, t.pairs),
			}, err
		}})
	}
	for _, p := range peers {
		list = append(list, side{p.name, func(_ context.Context, clients int) (performance.Turn, error) {
			return p.turn(peerOrder{Closed: &peerClosed{clients, c.period(w.Duration), peerQuantities{request.Memory(), request.CPU()}}})
		}})
	}
	return list, nil
}

// deep runs workloads/deep-pending.yaml: the load of others, without the waiting groups.
func (c *comparison) deep(ctx context.Context) error {
	w, err := readWorkload("deep-pending")
	if err != nil {
		return err
	}
	for _, depth := range w.Depths {
		if err := c.deepBy(ctx, w, depth); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) deepBy(ctx context.Context, w *workload, depth int) (err error) {
	ours, err := newLockedLedger(w, w.Hosts)
	if err != nil {
		return err
	}
	for g := range w.Groups {
		if err := ours.filled.wait(c.size(depth), w.Sizes, label.Of("queue", groupName(g), "user", groupName(g))); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	apps := w.loopApps(slices.Max(w.Clients))
	first := len(apps)
	for g := range w.Groups {
		apps = append(apps, peerApp{groupName(g), groupName(g)})
	}
	cluster, err := w.cluster(w.Hosts, apps)
	if err != nil {
		return err
	}
	peers, err := c.startPeers(ctx, c.peerList(), cluster)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopPeers(peers)) }()
	for _, p := range peers {
		if err := c.fillQueues(p, w, cluster, first, depth); err != nil {
			return err
		}
	}
	sides, err := c.sides(w, map[string]system{performance.Ledger: ours}, peers)
	if err != nil {
		return err
	}
	return c.takeTurns(ctx, w, performance.Deep, strconv.Itoa(depth), sides)
}

func groupName(g int) string { return fmt.Sprint("full-", g) }

// fillQueues fills a peer's queues of the groups with requests of the largest size, like
// filledLedger.wait, and then makes so many requests wait.
func (c *comparison) fillQueues(p *peer, w *workload, cluster *peerCluster, first, depth int) error {
	request, err := w.request()
	if err != nil {
		return err
	}
	batch := peerBatch{From: first, Apps: w.Groups, Requests: 1, Request: peerQuantities{request.Memory() * int64(w.Sizes), request.CPU()}, Sizes: 1}
	for _, q := range cluster.Queues {
		if q.Name == groupName(0) {
			batch.Requests = int(q.Limit.Memory / batch.Request.Memory)
		}
	}
	if _, err := p.turn(peerOrder{Burst: &batch}); err != nil {
		return err
	}
	if depth == 0 {
		return nil
	}
	batch.Requests, batch.Request.Memory, batch.Sizes = c.size(depth), request.Memory(), w.Sizes
	_, err = p.turn(peerOrder{Wait: &batch})
	return err
}

// machine describes this machine.
func machine() string {
	model := runtime.GOARCH
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for text := range strings.Lines(string(data)) {
			if key, value, found := strings.Cut(text, ":"); found && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores of %s, %s", runtime.NumCPU(), model, runtime.Version())
}

// waited returns the time in which a process waited for a core, since the machine started; 0 if it
// is not known.
func waited() time.Duration {
	data, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	some, _, _ := strings.Cut(string(data), "\n")
	_, total, found := strings.Cut(some, "total=")
	us, err := strconv.ParseInt(total, 10, 64)
	if !found || err != nil {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}
