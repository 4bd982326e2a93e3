package main

import (
	_ "embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bursar/bursar/internal/yamlfile"
)

//go:embed budgets.yaml
var budgetsFile []byte

// budget is a threshold for one line.
type budget struct {
	Name  string           `yaml:"name"`
	Of    string           `yaml:"of"` // value or ratio
	Least *yamlfile.Scalar `yaml:"least"`
	Most  *yamlfile.Scalar `yaml:"most"`
}

// report prints lines and compares them with their budgets.
type report struct {
	out     io.Writer
	budgets map[string]budget
	missed  []string
	met     int
	printed map[string]bool
}

func newReport(out io.Writer) (*report, error) {
	document, err := yamlfile.Parse("budgets.yaml", budgetsFile)
	if err != nil {
		return nil, err
	}
	var file struct {
		Budgets []budget `yaml:"budgets"`
	}
	if err := document.Decode(&file); err != nil {
		return nil, err
	}
	r := &report{out: out, budgets: make(map[string]budget), printed: make(map[string]bool)}
	for _, b := range file.Budgets {
		if _, twice := r.budgets[b.Name]; twice || (b.Of != "value" && b.Of != "ratio") || (b.Least == nil) == (b.Most == nil) {
			return nil, fmt.Errorf("budgets.yaml: %s: want it once, of: value or ratio, and least or most", b.Name)
		}
		if _, err := strconv.ParseFloat(b.bound(), 64); err != nil {
			return nil, fmt.Errorf("budgets.yaml: %s: %w", b.Name, err)
		}
		r.budgets[b.Name] = b
	}
	return r, nil
}

func (b budget) bound() string {
	if b.Least != nil {
		return b.Least.String()
	}
	return b.Most.String()
}

// line prints a value, and its ratio to another value of the same run. A ratio of 0 means that
// there is none.
func (r *report) line(name string, value float64, unit string, ratio float64) {
	r.printed[name] = true
	b, held := r.budgets[name]
	if !held {
		if ratio == 0 {
			fmt.Fprintf(r.out, "%s %s %s (no budget)\n", name, number(value), unit)
			return
		}
		fmt.Fprintf(r.out, "%s %s %s (ratio %s, no budget)\n", name, number(value), unit, number(ratio))
		return
	}
	bound, _ := strconv.ParseFloat(b.bound(), 64) // newReport has read it
	if ratio == 0 && bound != 0 {
		ratio = value / bound
	}
	judged, sign := value, ">="
	if b.Of == "ratio" {
		judged = ratio
	}
	met := judged >= bound
	if b.Most != nil {
		met, sign = judged <= bound, "<="
	}
	verdict := "ok"
	text := fmt.Sprintf("%s %s %s (ratio %s, budget %s %s %s, ", name, number(value), unit, number(ratio), b.Of, sign, b.bound())
	if r.met++; !met {
		r.met--
		verdict = "MISSED"
		r.missed = append(r.missed, text+verdict+")")
	}
	fmt.Fprintf(r.out, "%s%s)\n", text, verdict)
}

// more prints a line whose ratio is a lower bound, because the compared value was cut off. A budget
// above the bound is not known to be met.
func (r *report) more(name string, value float64, unit string, ratio float64) {
	verdict := "no budget"
	if b, held := r.budgets[name]; held {
		verdict = fmt.Sprintf("budget %s >= %s, not known", b.Of, b.bound())
		if bound, _ := strconv.ParseFloat(b.bound(), 64); b.Of == "ratio" && b.Least != nil && ratio >= bound {
			verdict = fmt.Sprintf("budget ratio >= %s, ok", b.bound())
			r.printed[name] = true
			r.met++
		}
	}
	fmt.Fprintf(r.out, "%s %s %s (ratio more than %s, %s)\n", name, number(value), unit, number(ratio), verdict)
}

// note prints the reason for a missing line.
func (r *report) note(name, why string) {
	fmt.Fprintf(r.out, "%s not measured: %s\n", name, why)
}

// close prints the missed budgets, and the budgets without a value of the suites that ran.
func (r *report) close(ran func(suite string) bool) {
	fmt.Fprintf(r.out, "\n%d budgets met, %d missed\n", r.met, len(r.missed))
	for _, line := range r.missed {
		fmt.Fprintln(r.out, " ", line)
	}
	for _, name := range slices.Sorted(maps.Keys(r.budgets)) {
		suite, _, _ := strings.Cut(name, "/")
		if !r.printed[name] && ran(suite) {
			fmt.Fprintln(r.out, "  not measured:", name)
		}
	}
}

// number formats three significant digits.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 1000 || v <= -1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}
