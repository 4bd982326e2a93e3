//go:build linux

package linkis

import (
	"os"
	"testing"

	"github.com/goccy/go-yaml"
)

// cyclesWorkload is test/linkis/testdata/cycles.yaml.
type cyclesWorkload struct {
	Threads         []int `yaml:"threads"`
	Seconds         int   `yaml:"seconds"`
	WarmupSeconds   int   `yaml:"warmupSeconds"`
	HostMemoryBytes int64 `yaml:"hostMemoryBytes"`
	MemoryBytes     int64 `yaml:"memoryBytes"`
	Cores           int   `yaml:"cores"`
	WaitMillis      int   `yaml:"waitMillis"`
}

// TestCycles measures how many cycles a second stock Linkis and the adapter do, and what a request
// takes. A missed budget is no failure: the machine may be busy.
func TestCycles(t *testing.T) {
	text, err := os.ReadFile("testdata/cycles.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var load cyclesWorkload
	if err := yaml.Unmarshal(text, &load); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, options{hosts: 1, memory: load.HostMemoryBytes})
	h := w.hosts[0]
	managers := []struct {
		name       string
		mode       mode
		properties map[string]string
	}{
		{"stock", stock, nil},
		{"stock, fast poll", stock, map[string]string{"linkis.master.distributed.lock.request.interval": "20"}},
		{"adapter", enforced, map[string]string{"linkis.bursar.wait.max": "2s"}},
	}
	results := make([]map[int]outcome, len(managers))
	for i, m := range managers {
		w.db.forgetEngines()
		w.startManager(m.mode, m.properties)
		if i == 0 {
			w.manager.listed()
			w.startECM(h)
		}
		run := func(threads, seconds int) outcome {
			statements := w.db.statements()
			o := w.loop(values{
				"ecm": h.instance(), "threads": threads, "users": threads, "seconds": seconds, "memory": load.MemoryBytes, "cores": load.Cores,
				"wait": load.WaitMillis, "limit": load.HostMemoryBytes,
			})
			t.Logf("%s, %d threads: %v; %.1f statements a cycle", m.name, threads, o, float64(w.db.statements()-statements)/float64(max(1, o.Cycles)))
			return o
		}
		run(1, load.WarmupSeconds)
		results[i] = make(map[int]outcome)
		for _, threads := range load.Threads {
			results[i][threads] = run(threads, load.Seconds)
		}
	}
	printTable(t, load, results)
}

// printTable prints the figures, and their ratios against the budgets.
func printTable(t *testing.T, load cyclesWorkload, results []map[int]outcome) {
	t.Helper()
	for _, threads := range load.Threads {
		plain, fast, adapter := results[0][threads], results[1][threads], results[2][threads]
		for i, name := range []string{"stock", "fast", "adapter"} {
			o := results[i][threads]
			t.Logf("linkis-%s-%d %.1f cycles/s, request p50 %.1f p99 %.1f ms, %d over", name, threads, o.PerSecond, o.Request.P50, o.Request.P99, o.Over)
		}
		for _, against := range []struct {
			name   string
			o      outcome
			budget map[int]float64
		}{{"stock", plain, map[int]float64{1: 3, 8: 20}}, {"fast", fast, map[int]float64{8: 5}}} {
			ratio := adapter.PerSecond / max(against.o.PerSecond, 0.01)
			verdict := ""
			if budget := against.budget[threads]; budget > 0 {
				verdict = "ok"
				if ratio < budget {
					verdict = "MISSED"
				}
			}
			t.Logf("linkis-adapter-%d is %.1f x %s (budget %.0f) %s", threads, ratio, against.name, against.budget[threads], verdict)
		}
		if adapter.Over > 0 {
			t.Errorf("%d threads: %d grants of the adapter went over", threads, adapter.Over)
		}
	}
}
