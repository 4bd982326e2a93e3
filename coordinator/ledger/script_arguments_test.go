package ledger_test

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// arguments are the arguments of a command of a script. An argument that the command does not know
// is an error of the script.
type arguments struct {
	t     *testing.T
	pos   string
	list  []datadriven.CmdArg
	input string
}

// dimensions are the keys that are read as quantities; other keys that a command does not know are
// labels.
var dimensions = []string{resource.Memory, resource.CPU, resource.Instances, resource.AMMemory, resource.AMCPU, resource.Applications, "gpu", "licence"}

func (a *arguments) fatal(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatalf("%s: %v", a.pos, err)
	}
}

// done complains about what was not taken.
func (a *arguments) done() {
	a.t.Helper()
	if len(a.list) > 0 {
		a.t.Fatalf("%s: what is %v?", a.pos, a.list)
	}
}

// word takes the first argument, which has no value.
func (a *arguments) word() string {
	a.t.Helper()
	if len(a.list) == 0 || len(a.list[0].Vals) > 0 {
		a.t.Fatalf("%s: the first argument is missing", a.pos)
	}
	word := a.list[0].Key
	a.list = a.list[1:]
	return word
}

// rest takes all arguments without a value.
func (a *arguments) rest() []string {
	var words []string
	a.list = slices.DeleteFunc(a.list, func(arg datadriven.CmdArg) bool {
		if len(arg.Vals) == 0 {
			words = append(words, arg.Key)
		}
		return len(arg.Vals) == 0
	})
	return words
}

// flag takes an argument without a value that may be there.
func (a *arguments) flag(name string) bool {
	i := slices.IndexFunc(a.list, func(arg datadriven.CmdArg) bool { return arg.Key == name && len(arg.Vals) == 0 })
	if i < 0 {
		return false
	}
	a.list = slices.Delete(a.list, i, i+1)
	return true
}

// values takes name=value or name=(value,value).
func (a *arguments) values(name string) ([]string, bool) {
	i := slices.IndexFunc(a.list, func(arg datadriven.CmdArg) bool { return arg.Key == name && len(arg.Vals) > 0 })
	if i < 0 {
		return nil, false
	}
	values := a.list[i].Vals
	a.list = slices.Delete(a.list, i, i+1)
	return values, true
}

func (a *arguments) option(name string) (string, bool) {
	values, set := a.values(name)
	return strings.Join(values, ","), set
}

func (a *arguments) text(name string) string {
	text, _ := a.option(name)
	return strings.ReplaceAll(text, "_", " ")
}

func (a *arguments) duration(text string) time.Duration {
	a.t.Helper()
	d, err := time.ParseDuration(text)
	a.fatal(err)
	return d
}

func (a *arguments) durationOf(name string) time.Duration {
	a.t.Helper()
	text, set := a.option(name)
	if !set {
		return 0
	}
	return a.duration(text)
}

func (a *arguments) integer(name string, otherwise int64) int64 {
	a.t.Helper()
	text, set := a.option(name)
	if !set {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	a.fatal(err)
	return n
}

// bytes reads a size, which may be negative.
func (a *arguments) bytes(name string) (int64, bool) {
	a.t.Helper()
	text, set := a.option(name)
	if !set {
		return 0, false
	}
	positive, negative := strings.CutPrefix(text, "-")
	n, err := resource.ParseMemory(positive)
	a.fatal(err)
	if negative {
		n = -n
	}
	return n, true
}

// vector takes the quantities among the arguments.
func (a *arguments) vector() resource.Vector {
	a.t.Helper()
	var v resource.Vector
	for _, dimension := range dimensions {
		if text, set := a.option(dimension); set {
			v = v.With(dimension, a.quantity(dimension, text))
		}
	}
	return v
}

// vectorOf takes name=(memory=1GiB,cpu=2).
func (a *arguments) vectorOf(name string) resource.Vector {
	a.t.Helper()
	values, _ := a.values(name)
	var v resource.Vector
	for _, pair := range values {
		dimension, text, _ := strings.Cut(pair, "=")
		v = v.With(dimension, a.quantity(dimension, text))
	}
	return v
}

// quantity reads 4GiB, 500m or 3. It may have a sign: the ledger refuses what is out of range.
func (a *arguments) quantity(dimension, text string) int64 {
	a.t.Helper()
	positive, negative := strings.CutPrefix(text, "-")
	q, err := resource.ParseQuantity(dimension, positive)
	a.fatal(err)
	if negative {
		return -q
	}
	return q
}

// labelsOf takes name=(key=value,key=value).
func (a *arguments) labelsOf(name string) label.Set {
	a.t.Helper()
	values, _ := a.values(name)
	labels := make(map[string]string)
	for _, pair := range values {
		key, value, _ := strings.Cut(pair, "=")
		labels[key] = value
	}
	set, err := label.FromMap(labels)
	a.fatal(err)
	return set
}

// labels takes every key=value that is left.
func (a *arguments) labels() label.Set {
	a.t.Helper()
	set, err := label.FromMap(a.pairs())
	a.fatal(err)
	return set
}

// selector takes every key=value that is left, or the word "everything".
func (a *arguments) selector() label.Selector {
	a.t.Helper()
	if a.flag("everything") {
		return label.Selector{}
	}
	s, err := label.NewSelector(a.pairs())
	a.fatal(err)
	return s
}

func (a *arguments) pairs() map[string]string {
	pairs := make(map[string]string)
	a.list = slices.DeleteFunc(a.list, func(arg datadriven.CmdArg) bool {
		if len(arg.Vals) == 0 {
			return false
		}
		pairs[arg.Key] = strings.Join(arg.Vals, ",")
		return true
	})
	return pairs
}

// body is the hash of everything that is left, as a server makes one of a request.
func (a *arguments) body() uint64 {
	h := fnv.New64a()
	for _, arg := range a.list {
		_, _ = h.Write([]byte(arg.String() + "\n"))
	}
	return h.Sum64()
}

// wishes takes where an allocation may go.
func (a *arguments) wishes() *ledger.Wishes {
	a.t.Helper()
	var w ledger.Wishes
	w.Host, _ = a.option("host")
	w.Required = a.labelsOf("require")
	w.Preferred = a.labelsOf("prefer")
	w.Avoid, _ = a.values("avoid")
	if w.Host == "" && w.Required == nil && w.Preferred == nil && w.Avoid == nil {
		return nil
	}
	return &w
}

// lines reads the input as commands of their own.
func (a *arguments) lines(each func(command string, line *arguments)) {
	a.t.Helper()
	for line := range strings.Lines(a.input) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		command, list, err := datadriven.ParseLine(line)
		a.fatal(err)
		one := &arguments{t: a.t, pos: a.pos, list: list}
		each(command, one)
		one.done()
	}
	a.input = ""
}
