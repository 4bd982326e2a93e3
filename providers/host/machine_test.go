package host

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// machine is a tree of proc and sys files in a directory of the test's own, and a clock.
type machine struct {
	testing.TB
	root string
	now  time.Time
}

func newMachine(tb testing.TB) *machine {
	tb.Helper()
	return &machine{TB: tb, root: tb.TempDir(), now: time.Unix(1_700_000_000, 0)}
}

// load writes the files of a fixture, but keeps those below "later/" for the second sample. It
// returns the expected results.
func (m *machine) load(file string) (later map[string]string, want string) {
	m.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		m.Fatal(err)
	}
	later = map[string]string{}
	for _, f := range archive.Files {
		if name, isLater := strings.CutPrefix(f.Name, "later/"); isLater {
			later[name] = string(f.Data)
		} else if f.Name == "want" {
			want = string(f.Data)
		} else {
			m.write(f.Name, string(f.Data))
		}
	}
	return later, want
}

func (m *machine) write(name, data string) {
	m.Helper()
	file := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		m.Fatal(err)
	}
}

func (m *machine) remove(name string) {
	m.Helper()
	if err := os.RemoveAll(filepath.Join(m.root, name)); err != nil {
		m.Fatal(err)
	}
}

// meter returns a Meter of the machine.
func (m *machine) meter(options Options) *Meter {
	m.Helper()
	options.Root = m.root
	options.Now = func() time.Time { return m.now }
	meter, err := NewMeter(options)
	if err != nil {
		m.Fatal(err)
	}
	return meter
}

// TestMachines measures every fixture twice, 10 s apart, and compares the results with those in the
// fixture's comment.
func TestMachines(t *testing.T) {
	files, err := filepath.Glob("testdata/machines/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			machine := newMachine(t)
			later, want := machine.load(file)
			// only the pressure figures decide
			meter := machine.meter(Options{ScarcePercent: 100})
			capacity, err := meter.Capacity(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if first := meter.Sample(t.Context()); first.CPUUsedMillis != nil {
				t.Errorf("the first sample says that %d millis of CPU were used", *first.CPUUsedMillis)
			}
			machine.now = machine.now.Add(10 * time.Second)
			for name, data := range later {
				machine.write(name, data)
			}
			got := describeCapacity(capacity) + describe(meter.Sample(t.Context()))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func describeCapacity(c Capacity) string {
	var out strings.Builder
	fmt.Fprintf(&out, "capacity: memory %s (%s), cpu %dm (%s)\n", size(&c.MemoryBytes), c.MemorySource, c.CPUMillis, c.CPUSource)
	writeProblems(&out, c.Errors)
	return out.String()
}

func describe(s Sample) string {
	var out strings.Builder
	fmt.Fprintf(&out, "memory: %s of %s, swap %s of %s\n",
		size(s.MemoryAvailableBytes), size(s.MemoryTotalBytes), size(s.SwapUsedBytes), size(s.SwapTotalBytes))
	if s.HugePagesTotalBytes != nil && *s.HugePagesTotalBytes > 0 {
		fmt.Fprintf(&out, "huge pages: %s of %s free\n", size(s.HugePagesFreeBytes), size(s.HugePagesTotalBytes))
	}
	if s.OutOfMemoryKills != nil {
		fmt.Fprintf(&out, "killed for lack of memory: %d\n", *s.OutOfMemoryKills)
	}
	fmt.Fprintf(&out, "cpu: %sm of %sm, load %s\n", known(s.CPUUsedMillis), known(s.CPUTotalMillis), known(s.Load1Millis))
	var figures []string
	if s.MemorySomeAvg10 != nil {
		figures = append(figures, fmt.Sprintf("memory some %s full %s", percent(s.MemorySomeAvg10), percent(s.MemoryFullAvg10)))
	}
	if s.CPUSomeAvg10 != nil {
		figures = append(figures, "cpu some "+percent(s.CPUSomeAvg10))
	}
	verdict := "grant"
	if s.Pressure {
		verdict = "refuse"
	}
	out.WriteString("pressure: ")
	if len(figures) > 0 {
		out.WriteString(strings.Join(figures, ", ") + ": ")
	}
	fmt.Fprintf(&out, "%s\nprocesses: %d\n", verdict, s.Processes)
	writeProblems(&out, s.Degraded)
	return out.String()
}

func writeProblems(out *strings.Builder, problems map[string]string) {
	for _, source := range sortedKeys(problems) {
		fmt.Fprintf(out, "degraded: %s\n", source)
	}
}

func known(quantity *int64) string {
	if quantity == nil {
		return "?"
	}
	return fmt.Sprint(*quantity)
}

func percent(hundredths *int32) string {
	if hundredths == nil {
		return "?"
	}
	return fmt.Sprintf("%d.%02d", *hundredths/100, *hundredths%100)
}

func size(bytes *int64) string {
	if bytes == nil {
		return "?"
	}
	for _, unit := range []struct {
		name  string
		bytes float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if float64(*bytes) >= unit.bytes {
			return fmt.Sprintf("%v %s", math.Round(float64(*bytes)/unit.bytes*100)/100, unit.name)
		}
	}
	return fmt.Sprintf("%d B", *bytes)
}
