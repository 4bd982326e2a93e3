package yarn

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/resource"
)

// Bounds of what is read. Real clusters have thousands of queues, a dozen levels and a handful of
// partitions.
const (
	maxDepth   = 64      // queues above one another
	maxLists   = 256     // lists inside one another that lead to something
	maxEntries = 100_000 // queues, and partitions of each
	maxLabels  = 256     // partitions of one queue
	maxName    = 2048    // bytes of a path, which are 512 characters at least, a partition or the name of a type
	maxNames   = 4096    // names that are kept once
	maxExcerpt = 160     // bytes of a text that are shown
	maxAbsurd  = 5       // figures that are shown
	maxFigure  = 1e6     // percent of anything but the whole, and the greatest factor and weight
)

// reader reads the values of an answer. It is lenient about differences between Hadoop's versions:
// a number may be quoted, one thing may stand for a list of one, and a value of an unexpected
// shape counts as missing.
type reader struct {
	tokens

	names   map[string]chosenName
	lists   int // lists that are open
	depth   int // queues that are open
	entries int
	users   int // that are kept, once more for each partition in which they have something
	// figures are absurd ones of the field at hand, as they are written; absurd is how many there
	// were.
	figures []string
	absurd  int
}

// absurdly notes a figure that no queue can have. Only the first are kept.
func (r *reader) absurdly(figure string) {
	if r.absurd++; r.absurd <= maxAbsurd {
		r.figures = append(r.figures, figure)
	}
}

// counted bounds how many queues and partitions are kept.
func (r *reader) counted() error {
	if r.entries++; r.entries > maxEntries {
		return &AnswerError{Refusal: Excessive, Detail: "more than 100000 queues and partitions"}
	}
	return nil
}

// countedPartition bounds how many partitions a queue has in addition.
func (r *reader) countedPartition(n int) error {
	if err := fewPartitions(n); err != nil {
		return err
	}
	return r.counted()
}

func fewPartitions(n int) error {
	if n > maxLabels {
		return &AnswerError{Refusal: Excessive, Detail: "a queue with more than 256 partitions"}
	}
	return nil
}

// readList reads elements that may come as null, [..], {wrapper: [..]}, {wrapper: element}, an
// element alone, or any of these within another. field reads one field of an element; add takes
// the element.
func readList[T any](r *reader, wrapper string, field func(*reader, *T, []byte) error, add func(*T) error) error {
	if r.lists++; r.lists > maxLists {
		return &AnswerError{Refusal: Excessive, Detail: "lists in lists"}
	}
	defer func() { r.lists-- }()
	if r.next() == jsontext.KindBeginArray {
		return r.array(func() error { return readList(r, wrapper, field, add) })
	}
	var element *T
	err := r.object(func(key []byte) error {
		if string(key) == wrapper {
			return readList(r, wrapper, field, add)
		}
		if element == nil {
			element = new(T)
		}
		return field(r, element, key)
	})
	if err != nil || element == nil {
		return err
	}
	return add(element)
}

// text returns the string that comes next; empty if it is none. It is one that only who runs the
// cluster has chosen: too long a one is refused.
func (r *reader) text() (string, error) {
	name, err := r.name()
	switch {
	case err != nil:
		return "", err
	case name.size > maxName:
		return "", &AnswerError{Refusal: Excessive, Detail: "a name of " + strconv.Itoa(name.size) + " bytes"}
	case name.fault != "":
		return "", malformed(name.fault)
	}
	return strings.TrimSpace(name.text), nil
}

// longPath is the fault of a queue whose path no request can have.
const longPath = "a path of more than 2048 bytes"

// chosenName is a name that a user of the cluster may have chosen, exactly as the cluster has it:
// "a" and "a " are two queues.
type chosenName struct {
	text string // empty if there is a fault
	size int    // in bytes
	// fault says why no request can have the name, to be read after "with"; empty: one can.
	fault string
	// begins is the beginning of a name with a fault.
	begins string
}

// name reads a name that a user of the cluster may have chosen. Names are few and come often, so
// each is kept once. The error is about the JSON alone: no name makes an answer unreadable.
func (r *reader) name() (chosenName, error) {
	if r.next() != jsontext.KindString {
		return chosenName{}, r.skip()
	}
	b, err := r.unquoted()
	if err != nil {
		return chosenName{}, err
	}
	if name, known := r.names[string(b)]; known {
		return name, nil
	}
	name := chosenName{size: len(b)}
	switch {
	case len(b) > maxName:
		name.fault = longPath
	case !utf8.Valid(b):
		name.fault = "a name that is not UTF-8"
	case bytes.ContainsRune(b, utf8.RuneError):
		// Two names that lost different characters would be one.
		name.fault = "a name that has lost characters (U+FFFD)"
	default:
		name.text = string(b)
	}
	if name.fault != "" {
		name.begins = string(b[:min(len(b), maxExcerpt)])
	}
	if len(r.names) < maxNames && len(b) <= maxName {
		r.names[string(b)] = name
	}
	return name, nil
}

// prose returns the beginning of the string that comes next, on one line.
func (r *reader) prose() (string, error) {
	if r.next() != jsontext.KindString {
		return "", r.skip()
	}
	b, err := r.unquoted()
	return excerpt(string(b[:min(len(b), excerptSize)])), err
}

// excerpt returns the beginning of a text, on one line.
func excerpt(text string) string { return spelling.Line(text, maxExcerpt) }

// boolean returns whether true comes next.
func (r *reader) boolean() (bool, error) {
	switch kind := r.next(); kind {
	case jsontext.KindTrue, jsontext.KindFalse:
		return kind == jsontext.KindTrue, r.skip()
	case jsontext.KindString:
		s, err := r.text()
		return s == "true", err
	default:
		return false, r.skip()
	}
}

// digits returns the number that comes next as it is written, quoted or not; empty if it is none.
func (r *reader) digits() ([]byte, error) {
	switch r.next() {
	case jsontext.KindNumber:
		return r.json.ReadValue()
	case jsontext.KindString:
		b, err := r.unquoted()
		return bytes.TrimSpace(b), err
	default:
		return nil, r.skip()
	}
}

// integer returns the number that comes next without its fraction, within 64 bits.
func (r *reader) integer() (n int64, there bool, err error) {
	b, err := r.digits()
	if err != nil || len(b) == 0 {
		return 0, false, err
	}
	if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		return n, true, nil
	}
	f, err := strconv.ParseFloat(string(b), 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax) || math.IsNaN(f):
		return 0, false, nil
	case f >= math.MaxInt64: // out of range is infinite
		return math.MaxInt64, true, nil
	case f <= math.MinInt64:
		return math.MinInt64, true, nil
	}
	return int64(f), true, nil
}

// count returns a number of applications. -1 is the word for none.
func (r *reader) count() (*int32, error) {
	n, there, err := r.integer()
	if err != nil || !there {
		return nil, err
	}
	if n < -1 || n > math.MaxInt32 {
		r.absurdly(strconv.FormatInt(n, 10))
	}
	return new(int32(min(max(n, math.MinInt32), math.MaxInt32))), nil
}

// mebibytes returns a quantity of memory that stands by itself.
func (r *reader) mebibytes() (*int64, error) {
	n, there, err := r.integer()
	if err != nil || !there {
		return nil, err
	}
	return &n, nil
}

// percent returns a number that is finite; none is less than zero. -1 is the word for none.
func (r *reader) percent() (*float64, error) {
	f, err := r.signed()
	if f == nil {
		return nil, err
	}
	if *f < 0 && *f != -1 || *f > maxFigure {
		r.absurdly(strconv.FormatFloat(*f, 'g', 6, 64))
	}
	if *f > maxFigure {
		return nil, err
	}
	return new(max(*f, 0)), err
}

// percentOfAll returns a share of the cluster in percent.
func (r *reader) percentOfAll() (*float64, error) {
	f, err := r.percent()
	if f != nil && *f > 100.5 { // more than what is lost in 32 bits
		r.absurdly(strconv.FormatFloat(*f, 'g', 6, 64) + "%")
	}
	return f, err
}

// factor returns a factor; -1 is the word for none.
func (r *reader) factor() (*float64, error) {
	f, err := r.signed()
	if f != nil && (*f < 0 && *f != -1 || *f > maxFigure) {
		r.absurdly(strconv.FormatFloat(*f, 'g', 6, 64))
		return nil, err
	}
	return f, err
}

// signed returns a number that is finite.
func (r *reader) signed() (*float64, error) {
	b, err := r.digits()
	if err != nil || len(b) == 0 {
		return nil, err
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, nil //nolint:nilnil,nilerr // no number is no figure
	}
	return &f, nil
}

// amount is a quantity of one type with its unit.
type amount struct {
	name, unit string
	value      int64
	there      bool
}

// vector returns the resources that come next; nil if there are none. Memory and cores are in them
// by themselves, and once more in the list that newer versions have for the other types.
func (r *reader) vector(as role) (*resource.Vector, error) {
	var listed resource.Vector
	var memory, vcores amount
	there := false
	err := r.object(func(key []byte) (err error) {
		switch string(key) {
		case "memory":
			memory.value, memory.there, err = r.integer()
		case "vCores":
			vcores.value, vcores.there, err = r.integer()
		case "resourceInformations":
			err = readList(r, "resourceInformation", amountField, func(a *amount) error {
				there = there || a.there
				listed = as.list(listed, *a)
				return nil
			})
		default:
			err = r.skip()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, q := range []amount{memory, vcores} {
		// A limit may be endless, in several words.
		if q.there && (q.value < -1 || as != roleLimit && q.value > resource.MaxQuantity/mebibyte) {
			r.absurdly(strconv.FormatInt(q.value, 10))
		}
	}
	if memory.there {
		listed, there = as.set(listed, resource.Memory, memory.value, mebibytes), true
	}
	if vcores.there {
		listed, there = as.set(listed, resource.CPU, vcores.value, cores), true
	}
	if !there {
		return nil, nil //nolint:nilnil // no quantity is no figure
	}
	return &listed, nil
}

func amountField(r *reader, a *amount, key []byte) (err error) {
	switch string(key) {
	case "name":
		a.name, err = r.text()
	case "units":
		a.unit, err = r.text()
	case "value":
		a.value, a.there, err = r.integer()
	default:
		err = r.skip()
	}
	return err
}
