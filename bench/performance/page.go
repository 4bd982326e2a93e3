package performance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The systems, by their names in results.
const (
	// Ledger is our system in memory.
	Ledger = "ledger"
	// Durable is our system with every commit on disk.
	Durable  = "durable"
	YuniKorn = "yunikorn"
	Nomad    = "nomad"
)

// Workloads of results.
const (
	Closed = "closed"
	Burst  = "burst"
	Deep   = "deep"
)

// Page writes the text between these lines.
const (
	begin = "<!-- results: make performance writes what follows -->"
	end   = "<!-- end of results -->"
)

// Draw writes the plots and the tables of a page PAGE.md. The folder PAGE next to it has the
// results (results.json) and receives the plots.
func Draw(page string) error {
	folder := strings.TrimSuffix(page, ".md")
	r, err := Read(filepath.Join(folder, "results.json"))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page) //nolint:gosec // what the caller names
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	written, err := r.Page(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	files := map[string]string{page: written}
	for name, picture := range r.Plots() {
		files[filepath.Join(folder, name)] = picture
	}
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil { //nolint:gosec // everybody may read it
			return fmt.Errorf("page: %w", err)
		}
	}
	return nil
}

// Page returns the page with the tables of these results, between the lines begin and end.
func (r *Results) Page(page string) (string, error) {
	head, rest, found := strings.Cut(page, begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("the page has no place for results: want a line %q and one %q", begin, end)
	}
	return head + begin + "\n\n" + r.tables() + end + tail, nil
}

func (r *Results) tables() string {
	var b strings.Builder
	row(&b, []string{"workload", "measured on", "machine", "somebody waited for a core"})
	row(&b, separators(4))
	for _, run := range r.Runs {
		row(&b, []string{run.Workload, run.Date, run.Machine, short(100*run.Waited) + " % of the time"})
	}
	b.WriteString("\n")
	row(&b, []string{"system", "version"})
	row(&b, separators(2))
	for _, s := range r.Systems {
		row(&b, []string{title(s.Name), s.Version})
	}
	b.WriteString("\n")
	for _, p := range plots() {
		if len(r.Points(p.workload)) == 0 {
			continue
		}
		fmt.Fprintf(&b, "### %s\n\n![%s](performance/%s)\n\n", p.heading, p.title, p.file)
		p.table(r, &b, p)
	}
	return b.String()
}

func rateText(t Turn) string {
	if t.Cut {
		return fmt.Sprintf("< %s (%s %% granted)", short(t.Rate), short(100*t.Granted))
	}
	return short(t.Rate)
}

func cpuText(t Turn) string {
	if t.Cut {
		return "> " + duration(t.CPU)
	}
	return duration(t.CPU)
}

// rates writes a row for each point, with the ratios of ours to each peer.
func rates(r *Results, b *strings.Builder, p plot) {
	r.compared(b, p, rateText, func(ratio Ratio) float64 { return ratio.Ratio })
}

// cpuTimes writes a row for each point, with the ratios of each peer to ours.
func cpuTimes(r *Results, b *strings.Builder, p plot) {
	r.compared(b, p, cpuText, func(ratio Ratio) float64 { return ratio.CPU })
}

// compared writes ratios, which are above 1 if ours is better, and bold otherwise.
func (r *Results) compared(b *strings.Builder, p plot, value func(Turn) string, of func(Ratio) float64) {
	pairs := ratiosOf(r.systemsOf(p.workload))
	var ratios []string
	for _, pair := range pairs {
		ratios = append(ratios, title(pair[0])+" to "+title(pair[1]))
	}
	r.table(b, p, "", value, ratios, func(name string) (cells []string) {
		for _, pair := range pairs {
			text := ""
			if ratio, found := r.ratio(p.workload, name, pair[0], pair[1]); found {
				text = short(of(ratio))
				if ratio.More {
					text = "> " + text
				} else if of(ratio) < 1 {
					text = "**" + text + "**"
				}
			}
			cells = append(cells, text)
		}
		return cells
	})
}

func latencies(r *Results, b *strings.Builder, p plot) {
	value := func(m Turn) string { return duration(m.P50) + ", " + duration(m.P99) }
	r.table(b, p, " p50, p99", value, nil, func(string) []string { return nil })
}

// table writes a row for each point of a workload: value of the median turn of each system, with
// what after the system's name in the header, and then further cells, under the columns more.
func (r *Results) table(b *strings.Builder, p plot, what string, value func(Turn) string, more []string, cells func(point string) []string) {
	systems := r.systemsOf(p.workload)
	header := []string{p.points}
	for _, s := range systems {
		header = append(header, title(s)+what)
	}
	header = append(header, more...)
	row(b, header)
	row(b, separators(len(header)))
	for _, name := range r.Points(p.workload) {
		line := []string{point(name)}
		for _, s := range systems {
			m, turns := r.Median(p.workload, name, s)
			line = append(line, cell(value(m), turns))
		}
		row(b, append(line, cells(name)...))
	}
	b.WriteString("\n")
}

// systemsOf returns the systems that were measured in a workload, ours first.
func (r *Results) systemsOf(workload string) []string {
	var list []string
	for _, s := range []string{Ledger, Durable, YuniKorn, Nomad} {
		for _, p := range r.Points(workload) {
			if _, turns := r.Median(workload, p, s); turns > 0 {
				list = append(list, s)
				break
			}
		}
	}
	return list
}

// ratiosOf returns the pairs to compare: each of ours with each of theirs.
func ratiosOf(systems []string) (pairs [][2]string) {
	for _, ours := range systems {
		for _, theirs := range systems {
			if mine(ours) && !mine(theirs) {
				pairs = append(pairs, [2]string{ours, theirs})
			}
		}
	}
	return pairs
}

func mine(system string) bool { return system == Ledger || system == Durable }

func title(system string) string {
	switch system {
	case Ledger:
		return "Bursar, in memory"
	case Durable:
		return "Bursar, durable"
	case YuniKorn:
		return "YuniKorn core"
	case Nomad:
		return "Nomad"
	}
	return system
}

func cell(text string, turns int) string {
	if turns == 0 {
		return ""
	}
	return text
}

func row(b *strings.Builder, cells []string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

func separators(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = "---"
	}
	return list
}
