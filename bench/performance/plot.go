package performance

import (
	"fmt"
	"html"
	"math"
	"strings"
)

const microseconds = "µs"

// plot is one picture: a group of bars for each point, with a bar for each system. The axis is
// logarithmic, because the systems differ by powers of ten.
type plot struct {
	file, workload string
	heading, title string // of the section of the page, and of the picture
	points         string // title of the axis of points
	unit           string
	of             func(Turn) float64
	table          func(*Results, *strings.Builder, plot) // of the same section
}

func plots() []plot {
	const (
		cpuTime   = "CPU time of a pair, less is better"
		loopPoint = "hosts × clients"
		deepPoint = "waiting × clients"
	)
	return []plot{
		{"closed-rate.svg", Closed, "Closed loop: pairs a second", "Pairs of allocation and release a second, more is better", loopPoint, "pairs/s", rate, rates},
		{"closed-cpu.svg", Closed, "Closed loop: CPU time", cpuTime, loopPoint, microseconds, cpu, cpuTimes},
		{"closed-p99.svg", Closed, "Closed loop: how long a grant takes", "How long a grant takes, p99, less is better", loopPoint, microseconds, p99, latencies},
		{"deep-rate.svg", Deep, "Deep pending: load of others", "Pairs a second of others, next to 2 × so many requests that wait, more is better", deepPoint, "pairs/s", rate, rates},
		{"deep-cpu.svg", Deep, "Deep pending: CPU time", cpuTime, deepPoint, microseconds, cpu, cpuTimes},
		{"deep-p99.svg", Deep, "Deep pending: how long a grant to others takes", "How long a grant to others takes, p99, less is better", deepPoint, microseconds, p99, latencies},
		{"burst-rate.svg", Burst, "Burst: grants a second", "Grants a second, more is better", "hosts × apps × requests", "grants/s", rate, rates},
		{"burst-cpu.svg", Burst, "Burst: CPU time", "CPU time of a grant, less is better", "hosts × apps × requests", microseconds, cpu, cpuTimes},
	}
}

// Sizes in pixels.
const (
	labelWidth = 150
	plotWidth  = 560
	valueWidth = 90
	barHeight  = 14
	groupGap   = 12
	top        = 72 // title and legend
	bottom     = 34 // axis
)

// Plots returns the pictures by the names of their files.
func (r *Results) Plots() map[string]string {
	pictures := make(map[string]string)
	for _, p := range plots() {
		if len(r.Points(p.workload)) > 0 {
			pictures[p.file] = r.draw(p)
		}
	}
	return pictures
}

// style has other colours for a dark page. The colours of systems can be told apart by people with
// red-green blindness.
const style = `<style>
text { font: 12px sans-serif; fill: #222 } .title { font-weight: bold; font-size: 14px }
.axis { font-size: 11px; fill: #666 } .grid { stroke: #ccc } .value { font-size: 11px }
.ledger { fill: #0072b2 } .durable { fill: #56b4e9 } .yunikorn { fill: #e69f00 } .nomad { fill: #999 }
.back { fill: #fff }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .axis { fill: #999 } .grid { stroke: #444 } .back { fill: #0d1117 } }
</style>
`

func (r *Results) draw(p plot) string {
	names, systems := r.Points(p.workload), r.systemsOf(p.workload)
	height := top + bottom
	for _, name := range names {
		height += groupGap + barHeight*r.bars(p, name, systems)
	}
	width := labelWidth + plotWidth + valueWidth
	low, high := r.decades(p, names, systems)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n%s<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", html.EscapeString(p.title), style, width, height)
	fmt.Fprintf(&b, `<text class="title" x="10" y="22">%s</text>`+"\n", html.EscapeString(p.title))
	legend(&b, systems)
	axis(&b, p, low, high, height)
	y := top
	for _, name := range names {
		y += groupGap
		bars := r.bars(p, name, systems)
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labelWidth-8, y+bars*barHeight/2+4, html.EscapeString(point(name)))
		for _, s := range systems {
			m, turns := r.Median(p.workload, name, s)
			if turns == 0 {
				continue
			}
			length := position(p.of(m), low, high)
			fmt.Fprintf(&b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`, s, labelWidth, y, length, barHeight-2)
			fmt.Fprintf(&b, `<text class="value" x="%.1f" y="%d">%s</text>`+"\n", labelWidth+length+5, y+barHeight-4, html.EscapeString(p.value(m)))
			y += barHeight
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p plot) value(m Turn) string {
	sign := ""
	if p.unit == microseconds {
		if m.Cut {
			sign = "> "
		}
		return sign + duration(p.of(m))
	}
	if m.Cut {
		sign = "< "
	}
	return sign + short(p.of(m))
}

// bars returns the number of systems that were measured at a point.
func (r *Results) bars(p plot, name string, systems []string) (n int) {
	for _, s := range systems {
		if _, turns := r.Median(p.workload, name, s); turns > 0 {
			n++
		}
	}
	return n
}

// decades returns the powers of ten that enclose all values.
func (r *Results) decades(p plot, names, systems []string) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, name := range names {
		for _, s := range systems {
			if m, turns := r.Median(p.workload, name, s); turns > 0 && p.of(m) > 0 {
				low, high = min(low, math.Floor(math.Log10(p.of(m)))), max(high, math.Ceil(math.Log10(p.of(m))))
			}
		}
	}
	if low > high {
		return 0, 1 // nothing was measured
	}
	return low, max(high, low+1)
}

// position returns the position of a value on the axis, in pixels.
func position(v, low, high float64) float64 {
	if v <= 0 {
		return 0
	}
	return plotWidth * max(0, (math.Log10(v)-low)/(high-low))
}

func legend(b *strings.Builder, systems []string) {
	for i, s := range systems {
		x := 10 + 170*i
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="36" width="12" height="12"/><text x="%d" y="46">%s</text>`+"\n", s, x, x+18, html.EscapeString(title(s)))
	}
}

// axis draws a line for each power of ten.
func axis(b *strings.Builder, p plot, low, high float64, height int) {
	for power := low; power <= high; power++ {
		v := math.Pow(10, power)
		x := labelWidth + position(v, low, high)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, x, top, x, height-bottom+4)
		fmt.Fprintf(b, `<text class="axis" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x, height-bottom+20, html.EscapeString(p.value(pick(v))))
	}
	fmt.Fprintf(b, `<text class="axis" x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labelWidth-8, top+4, html.EscapeString(p.points))
	if p.unit != microseconds {
		fmt.Fprintf(b, `<text class="axis" x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labelWidth+plotWidth+valueWidth-6, height-bottom+20, p.unit)
	}
}

// pick returns a turn whose value is v in every plot.
func pick(v float64) Turn {
	return Turn{Rate: v, P99: v, CPU: v}
}
