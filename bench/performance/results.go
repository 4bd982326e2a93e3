// Package performance holds the results of `make bench-peers`, and makes the table and the plots of
// docs/performance.md from them. Equal results give equal bytes.
package performance

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// Results are the results of one run of each workload.
type Results struct {
	Runs    []Run    `json:"runs"`
	Systems []System `json:"systems"`
	// Measures are in the order of the run.
	Measures []Measure `json:"measures"`
}

// Run is the time and place of a workload's measurement.
type Run struct {
	Workload string  `json:"workload"`
	Date     string  `json:"date"` // YYYY-MM-DD
	Machine  string  `json:"machine"`
	Waited   float64 `json:"waited"` // share of the time in which a process waited for a core (PSI, some)
}

// System is a measured system.
type System struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Measure is the result of one system at one point of a workload.
type Measure struct {
	Workload string `json:"workload"` // closed, burst or deep
	Point    string `json:"point"`    // such as 1000x64
	System   string `json:"system"`
	Turns    []Turn `json:"turns"`
}

// Turn is the result of one turn.
type Turn struct {
	Rate float64 `json:"rate"`          // pairs per second; of a burst, grants
	P50  float64 `json:"p50,omitempty"` // of a grant, in microseconds; a burst has none
	P99  float64 `json:"p99,omitempty"`
	// CPU is the CPU time of the system's process per pair or grant, in microseconds. For ours and
	// for peers it includes the clients.
	CPU float64 `json:"cpu,omitempty"`
	// Cut says that the turn of a peer was cut off before all of a burst was granted. Then Rate and
	// CPU assume that the peer grants the rest at that moment: the real rate is lower and the real
	// CPU time higher. Granted is the share that was granted.
	Cut     bool    `json:"cut,omitempty"`
	Granted float64 `json:"granted,omitempty"`
}

// Values of a turn for tables and plots.

func rate(t Turn) float64 { return t.Rate }

func p50(t Turn) float64 { return t.P50 }

func p99(t Turn) float64 { return t.P99 }

func cpu(t Turn) float64 { return t.CPU }

// Add adds a turn, with four significant digits.
func (r *Results) Add(workload, point, system string, turn Turn) {
	for _, v := range []*float64{&turn.Rate, &turn.P50, &turn.P99, &turn.CPU, &turn.Granted} {
		*v = significant(*v)
	}
	if m := r.find(workload, point, system); m != nil {
		m.Turns = append(m.Turns, turn)
		return
	}
	r.Measures = append(r.Measures, Measure{workload, point, system, []Turn{turn}})
}

// AddSystem adds a measured system, once per version.
func (r *Results) AddSystem(name, version string) {
	if !slices.ContainsFunc(r.Systems, func(s System) bool { return s == System{name, version} }) {
		r.Systems = append(r.Systems, System{name, version})
	}
}

func (r *Results) find(workload, point, system string) *Measure {
	for i := range r.Measures {
		if m := &r.Measures[i]; m.Workload == workload && m.Point == point && m.System == system {
			return m
		}
	}
	return nil
}

// Median returns the median of a system's turns, and their number. Both are zero if the system was
// not measured. The median is cut off if the turn with the median rate is: a turn that was cut off
// has no higher rate than one that was not.
func (r *Results) Median(workload, point, system string) (middle Turn, turns int) {
	m := r.find(workload, point, system)
	if m == nil {
		return Turn{}, 0
	}
	middle = Turn{Rate: median(m.Turns, rate), P50: median(m.Turns, p50), P99: median(m.Turns, p99), CPU: median(m.Turns, cpu)}
	for _, t := range m.Turns {
		if t.Rate == middle.Rate {
			middle.Cut, middle.Granted = t.Cut, t.Granted
		}
	}
	return middle, len(m.Turns)
}

// median returns the middle value; the upper one if the number of turns is even.
func median(turns []Turn, of func(Turn) float64) float64 {
	list := make([]float64, len(turns))
	for i, t := range turns {
		list[i] = of(t)
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// Ratio compares one of ours with one of theirs, at a point at which both were measured.
type Ratio struct {
	Workload, Point, Ours, Theirs string

	Rate  float64 // ours
	Ratio float64 // of the medians, ours to theirs
	CPU   float64 // of the medians of CPU times, theirs to ours; 0 if not measured
	// More says that both ratios are lower bounds, because theirs was cut off.
	More bool
}

// Ratios compares each of ours with each of theirs.
func (r *Results) Ratios() (list []Ratio) {
	for _, m := range r.Measures {
		if !mine(m.System) {
			continue
		}
		for _, s := range r.systemsOf(m.Workload) {
			if ratio, found := r.ratio(m.Workload, m.Point, m.System, s); found && !mine(s) {
				list = append(list, ratio)
			}
		}
	}
	return list
}

func (r *Results) ratio(workload, point, ours, theirs string) (Ratio, bool) {
	a, some := r.Median(workload, point, ours)
	b, others := r.Median(workload, point, theirs)
	if some == 0 || others == 0 || b.Rate == 0 {
		return Ratio{}, false
	}
	ratio := Ratio{workload, point, ours, theirs, a.Rate, a.Rate / b.Rate, 0, b.Cut}
	if a.CPU > 0 {
		ratio.CPU = b.CPU / a.CPU
	}
	return ratio, true
}

// Points returns the points of a workload, in the order of the run.
func (r *Results) Points(workload string) []string {
	var list []string
	for _, m := range r.Measures {
		if m.Workload == workload && !slices.Contains(list, m.Point) {
			list = append(list, m.Point)
		}
	}
	return list
}

// Read reads a file that was written by Merge.
func Read(file string) (*Results, error) {
	data, err := os.ReadFile(file) //nolint:gosec // what the caller names
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	r := &Results{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("results: %s: %w", file, err)
	}
	return r, nil
}

// Merge writes the results into a file. Results of other workloads in the file are kept.
func (r *Results) Merge(file string) error {
	merged := &Results{}
	if _, err := os.Stat(file); err == nil {
		if merged, err = Read(file); err != nil {
			return err
		}
	}
	ours := func(workload string) bool {
		return slices.ContainsFunc(r.Runs, func(run Run) bool { return run.Workload == workload })
	}
	merged.Runs = slices.DeleteFunc(merged.Runs, func(run Run) bool { return ours(run.Workload) })
	merged.Measures = slices.DeleteFunc(merged.Measures, func(m Measure) bool { return ours(m.Workload) })
	for _, run := range r.Runs {
		run.Waited = significant(run.Waited)
		merged.Runs = append(merged.Runs, run)
	}
	for _, s := range r.Systems {
		merged.AddSystem(s.Name, s.Version)
	}
	for _, m := range r.Measures {
		for _, t := range m.Turns {
			merged.Add(m.Workload, m.Point, m.System, t)
		}
	}
	data, err := json.MarshalIndent(merged, "", " ")
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil { //nolint:gosec // everybody may read it
		return fmt.Errorf("results: %w", err)
	}
	return nil
}
