package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// capacity is what the coordinator was last told that the host has; the caller holds mu.
func (c *coordinator) capacity() *bursarv1.Resource {
	for _, q := range slices.Backward(c.syncs) {
		if told := q.GetCapacity(); told != nil && q.GetIncarnation() == c.host.GetIncarnation() {
			return told
		}
	}
	return c.host.GetCapacity()
}

// sample is the last that the coordinator has got; the caller holds mu.
func (c *coordinator) sample() *bursarv1.HostSample {
	if len(c.syncs) == 0 {
		return nil
	}
	return c.syncs[len(c.syncs)-1].GetSample()
}

func writeFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	next := file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
}

// playedMachine is a meter of a machine whose memory, in MiB, and processors a test sets.
func playedMachine(t *testing.T) (meter *host.Meter, has func(memory, processors int)) {
	t.Helper()
	root := t.TempDir()
	has = func(memory, processors int) {
		t.Helper()
		kB := memory << 10
		writeFile(t, filepath.Join(root, "proc/meminfo"), fmt.Sprintf("MemTotal: %d kB\nMemFree: %d kB\nMemAvailable: %d kB\n", kB, kB, kB))
		stat := "cpu 0 0 0 0 0 0 0 0 0 0\n"
		for i := range processors {
			stat += fmt.Sprintf("cpu%d 0 0 0 100 0 0 0 0 0 0\n", i)
		}
		writeFile(t, filepath.Join(root, "proc/stat"), stat)
	}
	for _, name := range []string{"proc/self/mountinfo", "proc/self/cgroup"} {
		writeFile(t, filepath.Join(root, name), "")
	}
	writeFile(t, filepath.Join(root, "proc/loadavg"), "0 0 0 1/1 1\n")
	writeFile(t, filepath.Join(root, "proc/sys/kernel/random/boot_id"), "boot-1\n")
	meter, err := host.NewMeter(host.Options{Root: root, SafetyBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	return meter, has
}

func TestMemoryAndProcessorsThatComeAndGoAreTold(t *testing.T) {
	s := newSubject(t)
	var has func(memory, processors int)
	s.meter.Meter, has = playedMachine(t)
	has(1024, 2)
	s.start()
	for _, step := range []struct{ memory, processors int }{{1024, 2}, {4096, 2}, {4096, 8}, {512, 1}} {
		has(step.memory, step.processors)
		s.coordinator.await(fmt.Sprint(step), func() bool {
			told := s.coordinator.capacity()
			return told.GetMemoryBytes() == int64(step.memory)*mib && told.GetCpuMillis() == int64(step.processors)*1000
		})
	}
}

// container is a cgroup whose limits on memory and CPU the test can change, as the operator of a
// container does.
type container struct {
	name string
	v1   bool
	dirs []string // of memory and cpu
}

func newContainer(t *testing.T) *container {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes cgroups and needs root")
	}
	const top = "/sys/fs/cgroup"
	c := &container{name: fmt.Sprintf("/bursar-agent-test-%d", os.Getpid())}
	_, err := os.Stat(filepath.Join(top, "memory/memory.limit_in_bytes"))
	c.v1 = err == nil
	if c.v1 {
		c.dirs = []string{filepath.Join(top, "memory", c.name), filepath.Join(top, "cpu", c.name)}
	} else {
		c.dirs = []string{filepath.Join(top, c.name), filepath.Join(top, c.name)}
	}
	for _, dir := range c.dirs {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		})
	}
	return c
}

// limit sets its limits, memory in MiB and CPU in thousandths of a core.
func (c *container) limit(t *testing.T, memory, millis int64) {
	t.Helper()
	const period = 100_000
	files := [2]string{"memory.max", "cpu.max"}
	values := [2]string{strconv.FormatInt(memory*mib, 10), fmt.Sprintf("%d %d", millis*period/1000, period)}
	if c.v1 {
		files = [2]string{"memory.limit_in_bytes", "cpu.cfs_quota_us"}
		values[1], _, _ = strings.Cut(values[1], " ")
	}
	for i, file := range files {
		if err := os.WriteFile(filepath.Join(c.dirs[i], file), []byte(values[i]), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// The limits of a container are changed while the agent runs in it: what it gives away follows.
func TestLimitsOfAContainerThatChangeAreTold(t *testing.T) {
	s, c := newSubject(t), newContainer(t)
	var err error
	if s.meter.Meter, err = host.NewMeter(host.Options{Cgroup: c.name, SafetyBytes: -1}); err != nil {
		t.Fatal(err)
	}
	c.limit(t, 64, 500)
	s.start()
	for _, step := range []struct{ memory, millis int64 }{{64, 500}, {32, 500}, {48, 100}, {64, 900}} {
		c.limit(t, step.memory, step.millis)
		s.coordinator.await(fmt.Sprint(step), func() bool {
			told := s.coordinator.capacity()
			return told.GetMemoryBytes() == step.memory*mib && told.GetCpuMillis() == step.millis && s.coordinator.sample().GetMemoryTotalBytes() == step.memory*mib
		})
	}
}

func TestWorkDirThatIsShortKeepsNewEnginesAway(t *testing.T) {
	s := newSubject(t)
	dir := filepath.Join(t.TempDir(), "data")
	s.config.WorkDirs = []agent.WorkDir{{Path: dir, MinFree: "1B", MinFreeInodes: "0"}}
	s.start()
	const why = ": no such file or directory"
	s.coordinator.await("it says that it refuses", func() bool {
		sample := s.coordinator.sample()
		return sample.GetRefusal() == dir+why && len(sample.GetDisks()) == 1 && sample.GetDisks()[0].GetShort()
	})
	if _, metrics := s.get(s.http, "/metrics"); !strings.Contains(metrics, "bursar_agent_host_refuses 1\n") ||
		!strings.Contains(metrics, fmt.Sprintf("bursar_agent_work_dir_short{path=%q} 1\n", dir)) {
		t.Errorf("metrics:\n%s", metrics)
	}
	_, err := s.Allocate(t.Context(), request(1))
	if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "(refused: "+dir+why+")") {
		t.Errorf("allocated where the host refuses: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.coordinator.await("it refuses no more", func() bool {
		sample := s.coordinator.sample()
		return sample.GetRefusal() == "" && sample.GetDisks()[0].GetTotalBytes() > 0
	})
	if _, err := s.Allocate(t.Context(), request(1)); err != nil {
		t.Error(err)
	}
}

// A host counts its own: from the first word on, within the cap, and with the reason where it
// cannot.
func TestWhatACommandCountsIsCapacity(t *testing.T) {
	s := newSubject(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "number")
	writeFile(t, file, "2\n")
	s.config.Capacity = map[string]string{"gpu": "3"}
	s.config.Countables = map[string]agent.CountableConfig{
		"gpu":  {Command: []string{"/bin/cat", file}, Interval: time.Second},
		"fpga": {Command: []string{"/bin/ls", dir}, Count: "lines"},
		"tape": {Command: []string{"/bin/false"}},
	}
	s.start()
	registered := s.coordinator.host.GetCapacity().GetCustom()
	if registered["gpu"] != 2 || registered["fpga"] != 1 || registered["tape"] != 0 || len(registered) != 3 {
		t.Errorf("registered with %v", registered)
	}
	writeFile(t, file, "7\n")
	s.coordinator.await("more are there than may be given away", func() bool { return s.coordinator.capacity().GetCustom()["gpu"] == 3 })
	writeFile(t, file, "1\n")
	s.coordinator.await("fewer are there", func() bool { return s.coordinator.capacity().GetCustom()["gpu"] == 1 })
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	s.coordinator.await("the failure is told", func() bool {
		return strings.Contains(s.coordinator.sample().GetDegraded()["countables.gpu"], "exit status 1: /bin/cat: "+file+": No such file or directory") &&
			strings.Contains(s.coordinator.sample().GetDegraded()["countables.tape"], "exit status 1")
	})
	s.coordinator.await("in the end there are none", func() bool {
		told, has := s.coordinator.capacity().GetCustom()["gpu"]
		return has && told == 0
	})
}

func TestReloadChangesWorkDirsAndCountables(t *testing.T) {
	s := run(t)
	next := s.config
	next.WorkDirs = []agent.WorkDir{{Path: "/no/such/directory"}}
	next.Countables = map[string]agent.CountableConfig{"gpu": {Command: []string{"/bin/echo", "4"}}}
	if _, err := s.agent.Reload(next); err != nil {
		t.Fatal(err)
	}
	s.coordinator.await("both are told", func() bool {
		return s.coordinator.capacity().GetCustom()["gpu"] == 4 && s.coordinator.sample().GetRefusal() != ""
	})
	if _, err := s.agent.Reload(s.config); err != nil {
		t.Fatal(err)
	}
	s.coordinator.await("both are gone", func() bool {
		return len(s.coordinator.capacity().GetCustom()) == 0 && s.coordinator.sample().GetRefusal() == "" && len(s.coordinator.sample().GetDisks()) == 0
	})
}

// A host whose health command fails takes no engines, and says why, until the command is content.
// Until its first run has ended, the host takes none either.
func TestTheHealthCommandKeepsEnginesOffAHost(t *testing.T) {
	s := newSubject(t)
	broken := filepath.Join(t.TempDir(), "broken")
	writeFile(t, broken, "ERROR disk sdb is read-only\n")
	s.config.HealthCommand = agent.HealthCommand{Command: []string{"/bin/sh", "-c", "if [ -e $0 ]; then cat $0; fi", broken}, Interval: time.Second}
	s.start()
	defer s.stop()
	refusal := func(text string) func() bool {
		return func() bool { return s.coordinator.sample() != nil && s.coordinator.sample().GetRefusal() == text }
	}
	s.coordinator.await("the host says what is broken", refusal("health command: ERROR disk sdb is read-only"))
	s.coordinator.do(func() {
		if first := s.coordinator.syncs[0].GetSample().GetRefusal(); !strings.HasPrefix(first, "health command: ") {
			t.Errorf("the first report has the refusal %q", first)
		}
	})
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	s.coordinator.await("the host takes engines", refusal(""))
}

func TestWrongHostConfigNamesItsField(t *testing.T) {
	many := make([]agent.WorkDir, 65)
	counts := map[string]agent.CountableConfig{}
	for i := range many {
		many[i].Path = fmt.Sprint("/", i)
		counts[fmt.Sprint("c", i)] = agent.CountableConfig{Command: []string{"/bin/true"}}
	}
	dir := func(d agent.WorkDir) agent.Config { return agent.Config{WorkDirs: []agent.WorkDir{{Path: "/a"}, d}} }
	gpu := func(c agent.CountableConfig) agent.Config {
		return agent.Config{Countables: map[string]agent.CountableConfig{"gpu": c}}
	}
	command := []string{"/bin/true"}
	health := func(c agent.HealthCommand) agent.Config { return agent.Config{HealthCommand: c} }
	for _, test := range []struct {
		field  string
		config agent.Config
	}{
		{"workDirs", agent.Config{WorkDirs: many}},
		{"workDirs[1].path", dir(agent.WorkDir{})},
		{"workDirs[1].path", dir(agent.WorkDir{Path: "data"})},
		{"workDirs[1].path", dir(agent.WorkDir{Path: "/a/"})},
		{"workDirs[1].path", dir(agent.WorkDir{Path: "/" + strings.Repeat("b", 4096)})},
		{"workDirs[1].path", dir(agent.WorkDir{Path: "/\xff"})},
		{"workDirs[1].minFree", dir(agent.WorkDir{Path: "/b", MinFree: "some"})},
		{"workDirs[1].minFree", dir(agent.WorkDir{Path: "/b", MinFree: "101%"})},
		{"workDirs[1].minFree", dir(agent.WorkDir{Path: "/b", MinFree: "1e1%"})},
		{"workDirs[1].minFree", dir(agent.WorkDir{Path: "/b", MinFree: "-1%"})},
		{"workDirs[1].minFree", dir(agent.WorkDir{Path: "/b", MinFree: "NaN%"})},
		{"workDirs[1].minFreeInodes", dir(agent.WorkDir{Path: "/b", MinFreeInodes: "1GiB"})},
		{"workDirs[1].minFreeInodes", dir(agent.WorkDir{Path: "/b", MinFreeInodes: "%"})},
		{"countables", agent.Config{Countables: counts}},
		{"countables.memory", agent.Config{Countables: map[string]agent.CountableConfig{"memory": {Command: command}}}},
		{"countables.g pu", agent.Config{Countables: map[string]agent.CountableConfig{"g pu": {Command: command}}}},
		{"countables.gpu.command", gpu(agent.CountableConfig{})},
		{"countables.gpu.command", gpu(agent.CountableConfig{Command: []string{"nvidia-smi", "-L"}})},
		{"countables.gpu.command", gpu(agent.CountableConfig{Command: []string{"/bin/echo", "a\x00b"}})},
		{"countables.gpu.count", gpu(agent.CountableConfig{Command: command, Count: "words"})},
		{"countables.gpu.interval", gpu(agent.CountableConfig{Command: command, Interval: time.Millisecond})},
		{"countables.gpu.interval", gpu(agent.CountableConfig{Command: command, Interval: 25 * time.Hour})},
		{"countables.gpu.timeout", gpu(agent.CountableConfig{Command: command, Timeout: -1})},
		{"countables.gpu.timeout", gpu(agent.CountableConfig{Command: command, Timeout: time.Hour})},
		{"healthCommand.command", health(agent.HealthCommand{Command: []string{"check"}})},
		{"healthCommand.command", health(agent.HealthCommand{Command: []string{"/bin/echo", "a\x00b"}})},
		{"healthCommand.command", health(agent.HealthCommand{Interval: time.Minute})},
		{"healthCommand.interval", health(agent.HealthCommand{Command: command, Interval: time.Millisecond})},
		{"healthCommand.timeout", health(agent.HealthCommand{Command: command, Timeout: time.Hour})},
	} {
		wrong, is := errors.AsType[*agent.ConfigError](test.config.Validate())
		if !is || wrong.Field != test.field || wrong.Want == "" {
			t.Errorf("%s: %v", test.field, test.config.Validate())
		}
	}
	good := agent.Config{
		WorkDirs:      []agent.WorkDir{{Path: "/a"}, {Path: "/b", MinFree: "10GiB", MinFreeInodes: "1.5%"}, {Path: "/c", MinFree: "0%", MinFreeInodes: "1000"}},
		Countables:    map[string]agent.CountableConfig{"gpu": {Command: []string{"/usr/bin/nvidia-smi", "-L"}, Count: "lines"}},
		HealthCommand: agent.HealthCommand{Command: []string{"/usr/local/sbin/check", "-v"}, Interval: time.Hour, Timeout: time.Minute},
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

// A host that keeps all it has from engines is there, and grants nothing: that is said.
func TestProtectingAllThatThereIsIsWarnedOfOnce(t *testing.T) {
	s := newSubject(t)
	s.config.Protected = map[string]string{"memory": "1PiB", "cpu": "1m"}
	s.start()
	s.ticks(3)
	const warning = `level=WARN msg="all that the host has is protected" host_id=h1 field=protected.memory value=1PiB want="less than `
	if log := s.log.String(); strings.Count(log, warning) != 1 || strings.Contains(log, "protected.cpu") {
		t.Errorf("want %s… once", warning)
	}
}
