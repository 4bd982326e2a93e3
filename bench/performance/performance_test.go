package performance

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func turn(rate, p50, p99, cpu float64) Turn { return Turn{Rate: rate, P50: p50, P99: p99, CPU: cpu} }

func sample() *Results {
	r := &Results{Runs: []Run{{Closed, "2026-11-26", "2 cores", 0.25}, {Burst, "2026-11-27", "2 cores", 0.5}}}
	r.AddSystem(Ledger, "v1")
	r.AddSystem(Durable, "v1")
	r.AddSystem(YuniKorn, "v1.8.0")
	r.AddSystem(YuniKorn, "v1.8.0")
	for _, t := range []Turn{turn(100_000, 2, 3000, 9), turn(300_000, 1, 2000, 7), turn(200_000, 3, 4000, 8)} {
		r.Add(Closed, "1000x1", Ledger, t)
	}
	r.Add(Closed, "1000x1", Durable, turn(1000, 900, 2500, 200))
	r.Add(Closed, "1000x1", YuniKorn, turn(8000, 60, 150, 120))
	r.Add(Burst, "1000x2x25000", Ledger, Turn{Rate: 300_000})
	r.Add(Burst, "1000x2x25000", YuniKorn, Turn{Rate: 647})
	return r
}

func TestMediansAreCompared(t *testing.T) {
	got := sample().Ratios()
	want := []Ratio{
		{Closed, "1000x1", Ledger, YuniKorn, 200_000, 25, 15, false},
		{Closed, "1000x1", Durable, YuniKorn, 1000, 0.125, 0.6, false},
		{Burst, "1000x2x25000", Ledger, YuniKorn, 300_000, 300_000 / 647., 0, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if middle, turns := sample().Median(Closed, "1000x1", Nomad); turns != 0 || middle != (Turn{}) {
		t.Errorf("Nomad, which was not measured, has %d turns and %v", turns, middle)
	}
}

// One turn ended within its time. The others did not, so the median has only a bound.
func TestATurnThatWasCutOffIsABound(t *testing.T) {
	r := &Results{}
	r.Add(Burst, "1000x2x25000", Ledger, Turn{Rate: 300_000, CPU: 4})
	for _, t := range []Turn{{Rate: 1000, CPU: 800, Cut: true, Granted: 0.54}, {Rate: 1200, CPU: 700}, {Rate: 1000, CPU: 900, Cut: true, Granted: 0.54}} {
		r.Add(Burst, "1000x2x25000", YuniKorn, t)
	}
	if got, want := r.Ratios(), []Ratio{{Burst, "1000x2x25000", Ledger, YuniKorn, 300_000, 300, 200, true}}; !cmp.Equal(got, want) {
		t.Errorf("ratios %+v: want %+v", got, want)
	}
	page, err := r.Page(begin + end)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 300 k | < 1,000 (54 % granted) | > 300 |\n", "| 4 µs | > 800 µs | > 200 |\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if picture := r.Plots()["burst-rate.svg"]; !strings.Contains(picture, ">&lt; 1,000</text>") {
		t.Errorf("the plot does not say that 1,000 is a bound:\n%s", picture)
	}
}

func TestThePageGetsItsTables(t *testing.T) {
	page, err := sample().Page("# Page\n\n" + begin + "\nold\n" + end + "\n\nMore.\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Page\n\n" + begin + "\n\n| workload |", "| closed | 2026-11-26 | 2 cores | 25 % of the time |\n",
		"| YuniKorn core | v1.8.0 |\n",
		"| hosts × clients | Bursar, in memory | Bursar, durable | YuniKorn core | Bursar, in memory to YuniKorn core | Bursar, durable to YuniKorn core |\n| --- | --- | --- | --- | --- | --- |\n| 1,000 × 1 | 200 k | 1,000 | 8,000 | 25 | **0.125** |\n",
		"| 1,000 × 1 | 8 µs | 200 µs | 120 µs | 15 | **0.6** |\n",
		"| 1,000 × 1 | 2 µs, 3 ms | 900 µs, 2.5 ms | 60 µs, 150 µs |\n",
		"| 1,000 × 2 × 25,000 | 300 k | 650 | 460 |\n",
		end + "\n\nMore.\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "old") {
		t.Error("what was between the comments is still there")
	}
	if _, err := sample().Page("# Page\n"); err == nil {
		t.Error("a page without a place for results: want an error")
	}
}

func TestPlotsAreWellFormed(t *testing.T) {
	pictures := sample().Plots()
	if len(pictures) != 5 {
		t.Errorf("%d plots: want three of the closed loop and two of the burst", len(pictures))
	}
	for name, picture := range pictures {
		bars := 0
		for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
				bars++
			}
		}
		// The background, the legend, and the bars.
		want := map[bool]int{true: 1 + 3 + 3, false: 1 + 2 + 2}[strings.HasPrefix(name, Closed)]
		if bars != want {
			t.Errorf("%s has %d rectangles: want %d", name, bars, want)
		}
	}
}

func TestResultsOfOtherWorkloadsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	if err := sample().Merge(file); err != nil {
		t.Fatal(err)
	}
	again := &Results{Runs: []Run{{Closed, "2026-11-28", "4 cores", 0.12345678}}}
	again.AddSystem(YuniKorn, "v1.9.0")
	again.Add(Closed, "1000x1", YuniKorn, Turn{Rate: 12345.6})
	if err := again.Merge(file); err != nil {
		t.Fatal(err)
	}
	got, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	want := sample()
	want.Runs = []Run{want.Runs[1], {Closed, "2026-11-28", "4 cores", 0.1235}}
	want.Systems = append(want.Systems, System{YuniKorn, "v1.9.0"})
	want.Measures = append(want.Measures[3:], Measure{Closed, "1000x1", YuniKorn, []Turn{{Rate: 12350}}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// `make performance` writes them.
func TestThePageShowsTheResultsFile(t *testing.T) {
	const page = "../../docs/performance.md"
	r, err := Read("../../docs/performance/results.json")
	if err != nil {
		t.Fatal(err)
	}
	committed := func(name string) string {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	want, err := r.Page(committed(page))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, committed(page)); diff != "" {
		t.Errorf("%s is not that of its results: run make performance\n%s", page, diff)
	}
	for name, picture := range r.Plots() {
		if diff := cmp.Diff(picture, committed("../../docs/performance/"+name)); diff != "" {
			t.Errorf("%s is not that of its results: run make performance\n%s", name, diff)
		}
	}
}
