package main

import (
	"fmt"
	"slices"

	"github.com/bursar/bursar/bench/performance"
)

// peerLines prints the results of a workload: its place and time, the systems, a line for each
// measure, and then the ratios.
func (r *report) peerLines(results *performance.Results, workload, unit string) {
	for _, run := range results.Runs {
		if run.Workload == workload {
			fmt.Fprintf(r.out, "peers-%s on %s, %s, somebody waited for a core %s %% of the time\n", workload, run.Date, run.Machine, number(100*run.Waited))
		}
	}
	for _, s := range results.Systems {
		if !slices.ContainsFunc(results.Measures, func(m performance.Measure) bool { return m.Workload == workload && m.System == s.Name }) {
			continue
		}
		fmt.Fprintf(r.out, "peers-%s %s is %s\n", workload, s.Name, s.Version)
	}
	for _, m := range results.Measures {
		if m.Workload == workload {
			r.peerMeasure(results, m, unit)
		}
	}
	for _, ratio := range results.Ratios() {
		if ratio.Workload != workload {
			continue
		}
		name, line := fmt.Sprintf("peers-%s/%s-%s-to-%s", workload, ratio.Point, ratio.Ours, ratio.Theirs), r.line
		if ratio.More {
			line = r.more
		}
		line(name, ratio.Rate, unit, ratio.Ratio)
	}
}

// peerMeasure prints the medians of a measure.
func (r *report) peerMeasure(results *performance.Results, m performance.Measure, unit string) {
	middle, turns := results.Median(m.Workload, m.Point, m.System)
	name := fmt.Sprintf("peers-%s/%s-%s", m.Workload, m.Point, m.System)
	if middle.Cut {
		fmt.Fprintf(r.out, "%s less than %s %s (%s %% granted, then cut off; turns %d)\n", name, number(middle.Rate), unit, number(100*middle.Granted), turns)
		fmt.Fprintf(r.out, "%s-cpu more than %s µs\n", name, number(middle.CPU))
		return
	}
	r.line(name, middle.Rate, unit, 0)
	r.line(name+"-turns", float64(turns), "turns", 0)
	r.line(name+"-cpu", middle.CPU, "µs", 0)
	if middle.P99 > 0 {
		r.line(name+"-p50", middle.P50, "µs", 0)
		r.line(name+"-p99", middle.P99, "µs", 0)
	}
}
