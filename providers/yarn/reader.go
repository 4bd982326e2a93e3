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

// Limits on an answer. Real clusters have thousands of queues, a dozen levels and a handful of
// partitions.
const (
	maxDepth   = 64      // nested queues
	maxLists   = 256     // nested lists with elements
	maxEntries = 100_000 // queues, times their partitions
	maxLabels  = 256     // partitions of one queue
	maxName    = 2048    // bytes of a path (512 or more characters), a partition, a type name
	maxNames   = 4096    // names that are interned
	maxExcerpt = 160     // bytes of a displayed text
	maxAbsurd  = 5       // displayed figures
	maxFigure  = 1e6     // percent (but not shares of the cluster), factor, weight
)

// reader reads the values of an answer. It tolerates the differences between Hadoop versions: a
// number may be quoted, a single element may replace a list of one, and a value of an unexpected
// type counts as missing.
type reader struct {
	tokens

	names   map[string]chosenName
	lists   int // open lists
	depth   int // open queues
	entries int
	users   int // kept users, plus one for each partition that a user uses
	// figures lists the impossible figures of the current field as written; absurd is the total
	// number.
	figures []string
	absurd  int
}

// absurdly records an impossible figure. It keeps only the first ones.
func (r *reader) absurdly(figure string) {
	if r.absurd++; r.absurd <= maxAbsurd {
		r.figures = append(r.figures, figure)
	}
}

// counted bounds the number of queues and partitions.
func (r *reader) counted() error {
	if r.entries++; r.entries > maxEntries {
		return &AnswerError{Refusal: Excessive, Detail: "more than 100000 queues and partitions"}
	}
	return nil
}

// countedPartition also bounds the number of partitions of one queue.
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

// readList reads elements in any of these forms: null, [..], {wrapper: [..]}, {wrapper: element}, a
// single element, or any of these inside another. field reads one field of an element; add takes
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

// text returns the next value if it is a string, and empty otherwise. Only the cluster's operator
// chooses these strings, so an overlong one is an error.
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

// longPath is the fault of a queue whose path is too long for a request.
const longPath = "a path of more than 2048 bytes"

// chosenName is a name that a user of the cluster may have chosen, without any change: "a" and "a "
// are two queues.
type chosenName struct {
	text string // empty if there is a fault
	size int    // in bytes
	// fault is the reason why no request can contain the name, as the text after "with"; empty if
	// one can.
	fault string
	// begins is the beginning of a name with a fault.
	begins string
}

// name reads a name that a user of the cluster may have chosen. It interns names, because a few
// names occur often. It returns only JSON errors: no name makes an answer unreadable.
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
		// Two names that lost different characters would look the same.
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

// prose returns the beginning of the next string, on one line.
func (r *reader) prose() (string, error) {
	if r.next() != jsontext.KindString {
		return "", r.skip()
	}
	b, err := r.unquoted()
	return excerpt(string(b[:min(len(b), excerptSize)])), err
}

// excerpt returns the beginning of a text, on one line.
func excerpt(text string) string { return spelling.Line(text, maxExcerpt) }

// boolean reports whether the next value is true.
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

// digits returns the next number as written, quoted or not; empty if it is no number.
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

// integer returns the next number without its fraction, capped to 64 bits.
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
	case f >= math.MaxInt64: // out of range parses as infinity
		return math.MaxInt64, true, nil
	case f <= math.MinInt64:
		return math.MinInt64, true, nil
	}
	return int64(f), true, nil
}

// count returns a number of applications. -1 means unlimited.
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

// mebibytes returns a plain memory figure.
func (r *reader) mebibytes() (*int64, error) {
	n, there, err := r.integer()
	if err != nil || !there {
		return nil, err
	}
	return &n, nil
}

// percent returns a finite number that is not negative. -1 means none.
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
	if f != nil && *f > 100.5 { // above YARN's 32-bit rounding error
		r.absurdly(strconv.FormatFloat(*f, 'g', 6, 64) + "%")
	}
	return f, err
}

// factor returns a factor; -1 means none.
func (r *reader) factor() (*float64, error) {
	f, err := r.signed()
	if f != nil && (*f < 0 && *f != -1 || *f > maxFigure) {
		r.absurdly(strconv.FormatFloat(*f, 'g', 6, 64))
		return nil, err
	}
	return f, err
}

// signed returns a finite number.
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

// vector returns the next resources; nil if there are none. Memory and cores are fields of their
// own, and newer versions repeat them in the list with the other types.
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
		// A limit may be unlimited, in several notations.
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
