package machine

import (
	"cmp"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bursar/bursar/resource"
)

// Defaults of WorkDir and CountableConfig.
const (
	DefaultMinFree           = "5%"
	DefaultCountableInterval = time.Minute
	DefaultCountableTimeout  = 5 * time.Second
)

// WorkDir is a directory that engines write to.
type WorkDir struct {
	// Path is the directory, as an absolute path. It must exist.
	Path string `yaml:"path"`
	// MinFree is the space below which the host takes no new engines, as 10GiB or 5%. Default 5%.
	// The host takes engines again when there is a tenth more than that.
	MinFree string `yaml:"minFree"`
	// MinFreeInodes is the same for inodes, as a number or a percentage. Default 5%. A file system
	// that does not count inodes has enough.
	MinFreeInodes string `yaml:"minFreeInodes"`
}

// CountableConfig says how many of a custom countable the host has.
type CountableConfig struct {
	// Command is a program, by its absolute path, and its arguments. It is run without a shell. It
	// runs as the agent, with no input, in /, with PATH and LC_ALL=C as its environment.
	Command []string `yaml:"command"`
	// Count says what the program prints: "number" is one number, "lines" is a line for each.
	// Default number.
	Count string `yaml:"count"`
	// Interval is the time between two runs, 1s to 24h. Default 1m. If runs fail, the last count
	// stays for three intervals; after that the host has none.
	Interval time.Duration `yaml:"interval"`
	// Timeout is how long a run may take, 10ms to 1m. Then it is killed with all that it started.
	// Default 5s.
	Timeout time.Duration `yaml:"timeout"`
}

// WorkDirSettings is a WorkDir that was found good.
type WorkDirSettings struct {
	Path             string
	space, inodes    threshold
	spaceAs, nodesAs string // as configured, for people
}

// threshold is an amount, or a part of the whole.
type threshold struct {
	amount int64
	// parts is in ten-thousandths of the whole; it counts if amount is 0.
	parts int64
}

// of is the threshold as an amount.
func (t threshold) of(total int64) int64 {
	if t.amount > 0 {
		return t.amount
	}
	// The total is divided first, so that nothing overflows; the rest is rounded up.
	const whole = 10_000
	return total/whole*t.parts + (total%whole*t.parts+whole-1)/whole
}

// CountableSettings is a CountableConfig that was found good. It can be compared.
type CountableSettings struct {
	command           string // as in commandText
	lines             bool
	interval, timeout time.Duration
}

// commandText is a program and its arguments with a zero byte after each, which none can contain.
// It can be compared.
func commandText(args []string) string { return strings.Join(args, "\x00") + "\x00" }

// commandArgs are the program and its arguments.
func commandArgs(text string) []string {
	return strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
}

// checkCommand checks the program that a section runs, and its arguments. It returns the field that
// is wrong, with its value and the right form; an empty field: none.
func checkCommand(args []string) (field, value, want string) {
	if len(args) > 0 && filepath.IsAbs(args[0]) && !strings.Contains(strings.Join(args, ""), "\x00") {
		return "", "", ""
	}
	return "command", strings.Join(args, " "), "the absolute path of a program, and its arguments"
}

// checkPace checks how often a section runs its program, and for how long. It returns what
// checkCommand returns.
func checkPace(interval, timeout time.Duration) (field, value, want string) {
	switch {
	case interval < time.Second || interval > 24*time.Hour:
		return "interval", interval.String(), "1s to 24h"
	case timeout < 10*time.Millisecond || timeout > time.Minute:
		return "timeout", timeout.String(), "10ms to 1m"
	}
	return "", "", ""
}

// Parse reads a work directory; of an error the field is named within it.
func (d WorkDir) Parse() (WorkDirSettings, *FieldError) {
	if !filepath.IsAbs(d.Path) || len(d.Path) >= 4096 || !utf8.ValidString(d.Path) || strings.ContainsRune(d.Path, 0) {
		return WorkDirSettings{}, &FieldError{"path", d.Path, "an absolute path"}
	}
	parsed := WorkDirSettings{
		Path: filepath.Clean(d.Path), spaceAs: cmp.Or(d.MinFree, DefaultMinFree), nodesAs: cmp.Or(d.MinFreeInodes, DefaultMinFree),
	}
	var ok bool
	if parsed.space, ok = parseThreshold(parsed.spaceAs, resource.ParseMemory); !ok {
		return WorkDirSettings{}, &FieldError{"minFree", d.MinFree, "a size such as 10GiB, or a percentage up to 100%"}
	}
	parse := func(text string) (int64, error) { return resource.ParseQuantity(resource.Instances, text) }
	if parsed.inodes, ok = parseThreshold(parsed.nodesAs, parse); !ok {
		return WorkDirSettings{}, &FieldError{"minFreeInodes", d.MinFreeInodes, "a whole number, or a percentage up to 100%"}
	}
	return parsed, nil
}

// parseThreshold reads a percentage, or an amount with parse.
func parseThreshold(text string, parse func(string) (int64, error)) (threshold, bool) {
	number, isPercent := strings.CutSuffix(text, "%")
	if !isPercent {
		amount, err := parse(text)
		return threshold{amount: amount}, err == nil
	}
	percent, err := strconv.ParseFloat(number, 64)
	if err != nil || !(percent >= 0 && percent <= 100) || strings.Trim(number, "0123456789.") != "" {
		return threshold{}, false
	}
	return threshold{parts: int64(math.Round(percent * 100))}, true
}

// Parse reads a countable.
func (c CountableConfig) Parse(name string) (CountableSettings, *FieldError) {
	wrong := func(field, value, want string) (CountableSettings, *FieldError) {
		return CountableSettings{}, &FieldError{strings.TrimSuffix("countables."+name+"."+field, "."), value, want}
	}
	if name == resource.Memory || name == resource.CPU || name == resource.Instances {
		return wrong("", name, "the name of a custom countable, such as gpu: that of the machine's own is measured")
	}
	if _, err := resource.ParseVector(map[string]string{name: "1"}); err != nil {
		return wrong("", name, err.Error())
	}
	if field, value, want := checkCommand(c.Command); field != "" {
		return wrong(field, value, want)
	}
	if c.Count != "" && c.Count != "number" && c.Count != "lines" {
		return wrong("count", c.Count, "number or lines")
	}
	parsed := CountableSettings{
		command: commandText(c.Command), lines: c.Count == "lines",
		interval: cmp.Or(c.Interval, DefaultCountableInterval), timeout: cmp.Or(c.Timeout, DefaultCountableTimeout),
	}
	if field, value, want := checkPace(parsed.interval, parsed.timeout); field != "" {
		return wrong(field, value, want)
	}
	return parsed, nil
}
