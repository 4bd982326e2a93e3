package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// agentSuite measures row 7 of the budgets.
func agentSuite(ctx context.Context, r *run) error {
	w, err := readWorkload("agent")
	if err != nil {
		return err
	}
	engines, many := r.size(w.Engines), r.size(w.Many)
	cases := []agentCase{{name: "agent/trees", engines: engines, config: "engines: {cgroups: none}", otherAgents: true}}
	if len(cgroupRoots()) == 0 {
		for _, name := range []string{"agent/cgroups-cpu", "agent/moved-cpu", "agent/many-cpu"} {
			r.note(name, "no cgroups can be made here: want root, and cgroup v1 with memory and cpuacct, or v2")
		}
	} else {
		name := fmt.Sprintf("bursar-bench-%d", os.Getpid())
		moved := fmt.Sprintf("engines: {cgroups: direct, cgroup: /%s}", name)
		cases = append(cases,
			agentCase{name: "agent/cgroups", engines: engines, cgroup: name, started: true, config: "engines: {cgroups: none}", otherAgents: true},
			agentCase{name: "agent/moved", engines: engines, cgroup: name, config: moved},
			agentCase{name: "agent/many", engines: many, cgroup: name, config: moved})
	}
	for _, c := range cases {
		if err := r.agentCost(ctx, w, c); err != nil {
			return err
		}
	}
	return nil
}

// agentCase is one measurement of an agent.
type agentCase struct {
	name    string
	engines int
	// cgroup is the parent cgroup of the engines' cgroups; "": they have none. started: the cgroups
	// exist before the agent knows the engines; else the agent makes them.
	cgroup  string
	started bool
	config  string
	// otherAgents: other agents measure the same machine at the same time.
	otherAgents bool
}

// agentCost measures an agent.
func (r *run) agentCost(ctx context.Context, w *workload, of agentCase) (err error) {
	dir := filepath.Join(r.dir, filepath.Base(of.name))
	coordinator, err := r.startCoordinator(ctx, dir, w.Tick)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, coordinator.stop()) }()
	agent, err := r.startAgentOf(ctx, dir, coordinator, w.Tick, of.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.stop()) }()
	idle := &engineGroup{name: of.cgroup}
	defer func() { err = errors.Join(err, idle.end()) }()
	var roots []string
	if of.started {
		roots = cgroupRoots()
	}
	if err := idle.grow(of.engines, max(of.engines, r.size(w.Processes)), roots); err != nil {
		return err
	}
	c, err := client.New(agent.address)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := confirmAll(ctx, c, w, idle.pids(of.engines)); err != nil {
		return err
	}
	if of.cgroup != "" && !of.started {
		if err := idle.awaitMoved(ctx, of.engines); err != nil {
			return err
		}
	}
	return r.agentTicks(ctx, w, of, dir, agent)
}

// agentTicks measures an agent with all its engines, and the other agents beside it.
func (r *run) agentTicks(ctx context.Context, w *workload, of agentCase, dir string, agent *daemon) (err error) {
	var otherAgents []otherAgent
	if of.otherAgents {
		if otherAgents, err = r.startOtherAgents(ctx, dir, w.Tick); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, stopAll(otherAgents)) }()
	asking, stopAsking := context.WithCancel(ctx)
	defer stopAsking()
	pids := []int{agent.pid()}
	for _, n := range otherAgents {
		pids = append(pids, n.pid())
		if n.url != "" {
			go n.ask(asking, w.Tick)
		}
	}
	// all engines are known, and were measured twice
	if _, err := awaitTicks(ctx, agent.address, 4, w.Tick); err != nil {
		return err
	}
	costs, err := processCosts(pids, func() (int, error) { return awaitTicks(ctx, agent.address, r.size(w.Window), w.Tick) })
	if err != nil {
		return err
	}
	ours, name := costs[0], of.name
	r.line(name+"-tick", ours.tick.Seconds()*1000, "ms", 0)
	r.line(name+"-cpu", 100*ours.tick.Seconds()/w.Scaled.Seconds(), "% of a core", 0)
	r.line(name+"-rss", ours.memory/(1<<20), "MiB", 0)
	for i, n := range otherAgents {
		theirs := costs[i+1]
		r.line(name+"-"+n.name+"-tick", theirs.tick.Seconds()*1000, "ms", ours.tick.Seconds()/theirs.tick.Seconds())
		r.line(name+"-"+n.name+"-rss", theirs.memory/(1<<20), "MiB", ours.memory/theirs.memory)
	}
	return nil
}

// processCost is the resource usage of a process.
type processCost struct {
	tick   time.Duration // CPU time per tick
	memory float64       // resident at the end, in bytes
}

// processCosts returns the costs of processes while ticks pass.
func processCosts(pids []int, pass func() (ticks int, err error)) ([]processCost, error) {
	before := make([]time.Duration, len(pids))
	for i, pid := range pids {
		var err error
		if before[i], err = cpuTimeOf(pid); err != nil {
			return nil, err
		}
	}
	ticks, err := pass()
	if err != nil {
		return nil, err
	}
	costs := make([]processCost, len(pids))
	for i, pid := range pids {
		after, err := cpuTimeOf(pid)
		if err != nil {
			return nil, err
		}
		bytes, err := memoryOf(pid)
		if err != nil {
			return nil, err
		}
		costs[i] = processCost{(after - before[i]) / time.Duration(ticks), float64(bytes)}
	}
	return costs, nil
}

// confirmAll makes each process an engine.
func confirmAll(ctx context.Context, c *client.Client, w *workload, pids []int) error {
	request, err := w.request()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		res, err := c.Allocations().Allocate(ctx, &bursarv1.AllocateRequest{
			Labels: map[string]string{"user": "bench", "creator": "bench", "engineType": "idle"}, Resource: convert.ResourceToProto(request),
		})
		if err != nil {
			return fmt.Errorf("allocate: %w", err)
		}
		if _, err := c.Allocations().Confirm(ctx, &bursarv1.ConfirmRequest{
			Id: res.GetAllocation().GetId(), Process: &bursarv1.Process{Pid: int32(pid)}, //nolint:gosec // a pid is below 2^22
		}); err != nil {
			return fmt.Errorf("confirm: %w", err)
		}
	}
	return nil
}

// engineGroup is a group of idle processes.
type engineGroup struct {
	name     string // of their parent cgroup
	commands []*exec.Cmd
}

// awaitMoved waits until an agent has moved so many engines to their own cgroups.
func (c *engineGroup) awaitMoved(ctx context.Context, engines int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		// the pattern is valid
		moved, _ := filepath.Glob(filepath.Join(cgroupRoots()[0], c.name, "bursar-engines", "*.adopted"))
		if len(moved) >= engines {
			return nil
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d engines were moved: %w", len(moved), engines, ctx.Err())
		}
	}
}

// grow starts engines, each in a cgroup below these roots, and then other processes until the
// machine has the given number.
func (c *engineGroup) grow(engines, processes int, roots []string) error {
	for i := range engines {
		pid, err := c.add(asEngine)
		if err != nil {
			return err
		}
		for _, root := range roots {
			group := filepath.Join(root, c.name, strconv.Itoa(i))
			if err := os.MkdirAll(group, 0o755); err != nil { //nolint:gosec // as cgroups are
				return fmt.Errorf("cgroup: %w", err)
			}
			if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600); err != nil {
				return fmt.Errorf("cgroup: %w", err)
			}
		}
	}
	there, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return fmt.Errorf("processes: %w", err)
	}
	for range processes - len(there) {
		if _, err := c.add("1000000"); err != nil {
			return err
		}
	}
	return nil
}

// asEngine is the sleep time of engines; the number distinguishes them from other processes.
const asEngine = "1000001"

func (c *engineGroup) add(long string) (pid int, err error) {
	command := exec.Command("sleep", long) //nolint:gosec,noctx // a number; end kills it
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return 0, fmt.Errorf("an idle process: %w", err)
	}
	c.commands = append(c.commands, command)
	return command.Process.Pid, nil
}

// pids returns the pids of the first n processes.
func (c *engineGroup) pids(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = c.commands[i].Process.Pid
	}
	return list
}

func (c *engineGroup) end() error {
	var errs []error
	for _, command := range c.commands {
		errs = append(errs, command.Process.Kill())
	}
	for _, command := range c.commands {
		_ = command.Wait() // it was killed
	}
	if c.name != "" {
		errs = append(errs, removeCgroups(c.name))
	}
	return errors.Join(errs...)
}

// removeCgroups removes the cgroup of this name and all below it, in every hierarchy.
func removeCgroups(name string) error {
	var errs []error
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		for _, below := range []string{"/*/*", "/*", ""} {
			groups, _ := filepath.Glob(pattern + name + below) // the pattern is valid
			for _, group := range groups {
				if info, err := os.Lstat(group); err == nil && info.IsDir() {
					if err := os.Remove(group); !errors.Is(err, fs.ErrNotExist) {
						errs = append(errs, err)
					}
				}
			}
		}
	}
	return errors.Join(errs...)
}

// cgroupRoots returns the hierarchies in which the measurement of an engine needs a cgroup; none if
// cgroups cannot be made there.
func cgroupRoots() []string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		controllers, err := os.ReadFile("/sys/fs/cgroup/cgroup.subtree_control")
		if err != nil || !strings.Contains(string(controllers), "memory") || !writable("/sys/fs/cgroup") {
			return nil
		}
		return []string{"/sys/fs/cgroup"}
	}
	roots := []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpuacct"}
	for _, root := range roots {
		if !writable(root) {
			return nil
		}
	}
	return roots
}

func writable(root string) bool {
	probe := filepath.Join(root, fmt.Sprintf("bursar-bench-probe-%d", os.Getpid()))
	return os.Mkdir(probe, 0o755) == nil && os.Remove(probe) == nil //nolint:gosec // as cgroups are
}

// measureCount matches the agent's count of its measurements.
var measureCount = regexp.MustCompile(`(?m)^bursar_agent_measure_seconds_count (\d+)$`)

// awaitTicks waits for about n ticks of an agent and returns their exact number. It asks the agent
// only at both ends, because the answer costs the agent CPU time.
func awaitTicks(ctx context.Context, socket string, n int, tick time.Duration) (int, error) {
	first, err := countTicks(ctx, socket)
	if err != nil {
		return 0, err
	}
	timer := time.NewTimer(time.Duration(n) * tick)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	last, err := countTicks(ctx, socket)
	if err == nil && last == first {
		err = fmt.Errorf("no tick in %s", time.Duration(n)*tick)
	}
	return last - first, err
}

func countTicks(ctx context.Context, socket string) (int, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	found := measureCount.FindSubmatch(data)
	if found == nil {
		return 0, errors.New("metrics: no count of measurements")
	}
	return strconv.Atoi(string(found[1]))
}
