package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// Decode parses the output of a command. It must be one JSON object without unknown or duplicate
// fields. The error is an *AnswerError.
func Decode(data []byte) (*Answer, error) {
	if err := wellFormed(data); err != nil {
		return nil, err
	}
	if err := checkVersion(data); err != nil {
		return nil, err
	}
	var a Answer
	queues := false
	r := readerOf(data)
	err := r.object("", "version, server, incarnation, untrusted, queues or applications", func(key, at string) (known bool, err error) {
		switch key {
		case "version":
			err = r.json.SkipValue() // checkVersion has read it
		case "server":
			a.Server, err = r.text(at, maxText)
		case "incarnation":
			a.Incarnation, err = r.text(at, maxText)
		case "untrusted":
			a.Untrusted, err = r.text(at, maxText)
		case "queues":
			queues = true
			a.Queues, err = readList(r, at, maxQueues, r.queue)
		case "applications":
			a.ListsApplications = true
			a.Applications, err = readList(r, at, maxApplications, r.application)
		default:
			return false, nil
		}
		return true, err
	})
	switch {
	case err != nil:
		return nil, err
	case !queues:
		return nil, missing("queues", "a list of queues")
	case len(a.Queues) == 0:
		return nil, refuse("queues", "[]", `at least one queue; if none is known now, end with another code than 0`)
	}
	return &a, a.check()
}

// wellFormed checks that the output is exactly one JSON value.
func wellFormed(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return missing("", "one JSON object; the command printed nothing there")
	}
	var value json.RawMessage
	err := json.Unmarshal(data, &value)
	wrong, is := errors.AsType[*json.SyntaxError](err)
	if !is {
		return nil
	}
	// the wrong line, or the part of it around the error
	at := max(0, int(wrong.Offset)-1)
	first := max(0, at-maxShown/2, bytes.LastIndexByte(data[:at], '\n')+1)
	line, _, _ := bytes.Cut(data[first:min(len(data), first+2*maxShown)], []byte("\n"))
	return refuse("", quoted(strings.ToValidUTF8(string(line), "")), fmt.Sprintf("one JSON object (byte %d: %s)", at+1, printable(wrong.Error())))
}

// checkVersion reads the version first: the error about a later format version must name the
// version, not an unknown field.
func checkVersion(data []byte) error {
	r := readerOf(data)
	if r.json.PeekKind() != jsontext.KindBeginObject {
		return r.mistyped("", "one JSON object")
	}
	found := false
	err := r.each(jsontext.KindEndObject, func() error {
		key, err := r.string()
		if err != nil {
			return err
		}
		if key != "version" || found {
			return r.json.SkipValue()
		}
		found = true
		raw, err := r.json.ReadValue()
		if err == nil && string(raw) != strconv.Itoa(Version) {
			err = refuse("version", quoted(string(raw)), strconv.Itoa(Version))
		}
		return err
	})
	if err == nil && !found {
		err = missing("version", strconv.Itoa(Version))
	}
	return err
}

// queue reads one queue.
func (r reader) queue(at string) (q providers.Queue, err error) {
	used, named := false, false
	err = r.object(at, "path, partition, limit, used, guaranteed, mayGrow, heldBack, state or closed", func(key, at string) (known bool, err error) {
		switch key {
		case "path":
			named = true
			q.Path, err = r.name(at)
		case "partition":
			q.Partition, err = r.name(at)
		case "limit":
			q.Limit, err = r.vector(at, `; for no limit leave it out`)
		case "used":
			used = true
			q.Used, err = r.vector(at, "")
		case "guaranteed":
			q.Guaranteed, err = r.vector(at, "")
		case "mayGrow":
			q.MayGrow, err = r.vector(at, "; for no growth leave it out")
		case "heldBack":
			q.HeldBack, q.HeldBackBy, err = r.heldBack(at)
		case "state":
			q.State, err = r.text(at, maxText)
		case "closed":
			q.Closed, err = r.boolean(at)
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return q, err
	}
	if !named {
		return q, missing(at+".path", "the path of the queue, such as licences or team-a.batch")
	}
	// A limit without its use would look like free room.
	for dimension := range q.Limit.All() {
		if !used {
			return q, missing(at+".used", "what is used of "+dimension+", which has a limit; 0 if nothing is")
		}
		if !q.Used.Has(dimension) {
			return q, missing(at+".used."+fieldOf(dimension), "what is used of "+dimension+", which has a limit; 0 if nothing is")
		}
	}
	for dimension, n := range q.MayGrow.All() {
		switch most, limited := q.Limit.Get(dimension); {
		case !limited:
			return q, missing(at+".limit."+fieldOf(dimension), "the limit of today, as it may grow")
		case n <= most: // already as large, or larger
			q.MayGrow = q.MayGrow.Without(dimension)
		}
	}
	return q, nil
}

// heldBack reads the number of applications that the system holds back although there is room for
// them.
func (r reader) heldBack(at string) (applications int32, reason string, err error) {
	const want = "a whole number from 0 to 100000"
	given := false
	err = r.object(at, "applications or reason", func(key, at string) (known bool, err error) {
		switch key {
		case "applications":
			given = true
			var n int64
			if n, err = r.count(at, ""); err == nil && n > maxApplications {
				err = refuse(at, strconv.FormatInt(n, 10), want)
			}
			applications = int32(n) //nolint:gosec // see maxApplications
		case "reason":
			reason, err = r.text(at, maxText)
		default:
			return false, nil
		}
		return true, err
	})
	if err == nil && !given {
		err = missing(at+".applications", want)
	}
	return applications, reason, err
}

// fieldOf returns the JSON field of a dimension.
func fieldOf(dimension string) string {
	switch dimension {
	case resource.Memory, resource.CPU, resource.Instances:
		return dimension
	}
	return "custom." + dimension
}

// application reads one application.
func (r reader) application(at string) (a providers.Application, err error) {
	var partition string
	var held resource.Vector
	given, queue := false, false
	a.Known = true
	err = r.object(at, "id, queue, partition, user, allocated or ended", func(key, at string) (known bool, err error) {
		switch key {
		case "id":
			a.ID, err = r.text(at, maxID)
		case "queue":
			queue = true
			a.Queue, err = r.name(at)
		case "partition":
			partition, err = r.name(at)
		case "user":
			a.User, err = r.name(at)
		case "allocated":
			given = true
			held, err = r.vector(at, "")
		case "ended":
			a.Ended, err = r.boolean(at)
		default:
			return false, nil
		}
		return true, err
	})
	switch {
	case err != nil:
		return a, err
	case a.ID == "":
		return a, missing(at+".id", "the id that confirm --application names")
	case !queue:
		return a, missing(at+".queue", "the path of its queue")
	case !given && !a.Ended:
		return a, missing(at+".allocated", "what it holds in its queue, or {} for nothing")
	}
	a.Allocated = map[string]resource.Vector{partition: held}
	return a, nil
}

// place identifies a queue by its path and partition.
type place struct{ path, partition string }

// check checks the parts of an answer against each other, and fills in the parents of queues. No
// queue name makes it reject an answer, because other people than the author of the command may
// choose names. A queue without its parent becomes unaddressable here; providers.Clean handles the
// other unusable names.
func (a *Answer) check() error {
	indexes := make(map[place]int, len(a.Queues))
	for i := range a.Queues {
		q := &a.Queues[i]
		if _, twice := indexes[place{q.Path, q.Partition}]; !twice {
			indexes[place{q.Path, q.Partition}] = i
		}
	}
	kept := make([]providers.Queue, 0, len(a.Queues))
	for i, q := range a.Queues {
		dot := strings.LastIndexByte(q.Path, '.')
		if dot < 0 || !resource.ValidPath(q.Path) {
			kept = append(kept, q)
			continue
		}
		q.Parent = q.Path[:dot]
		if gap := gapAbove(q.Path, func(path string) bool { _, there := indexes[place{path, q.Partition}]; return there }); gap != "" {
			a.leaveOut(&q, gap)
			continue
		}
		above := indexes[place{q.Parent, q.Partition}]
		for _, countable := range q.Limit.Custom() {
			if !a.Queues[above].Limit.Has(countable.Name) {
				return missing(fmt.Sprintf("queues[%d].limit.custom.%s", above, countable.Name),
					fmt.Sprintf("a limit, as queues[%d] below it has one; a custom countable that is not listed is none", i))
			}
		}
		kept = append(kept, q)
	}
	a.Queues = kept
	ids := make(map[string]int, len(a.Applications))
	for i := range a.Applications {
		of := &a.Applications[i]
		if before, twice := ids[of.ID]; twice {
			return refuse(fmt.Sprintf("applications[%d].id", i), quoted(of.ID), fmt.Sprintf("each id once; applications[%d] has it, too", before))
		}
		ids[of.ID] = i
		for partition := range of.Allocated {
			if _, there := indexes[place{of.Queue, partition}]; !there && !of.Ended {
				return refuse(fmt.Sprintf("applications[%d].queue", i), quoted(of.Queue), "the path of a queue in the list, in the same partition")
			}
		}
	}
	return nil
}

// gapAbove returns the nearest ancestor path without a queue; empty if every ancestor has one.
func gapAbove(path string, there func(path string) bool) string {
	for dot := strings.LastIndexByte(path, '.'); dot >= 0; dot = strings.LastIndexByte(path, '.') {
		if path = path[:dot]; !there(path) {
			return path
		}
	}
	return ""
}

// leaveOut removes a queue whose ancestor is not in the list. A request for such a queue would
// count in a parent about which nothing is known.
func (a *Answer) leaveOut(q *providers.Queue, gap string) {
	if len(a.Unaddressable) == providers.MostUnaddressable {
		a.MoreUnaddressable++
		return
	}
	a.Unaddressable = append(a.Unaddressable, providers.Unaddressable{
		Name: spelling.Quoted(q.Path, maxShown), Partition: q.Partition,
		Reason: "the queue above it, " + spelling.Quoted(gap, maxShown) + ", is not in the list in the same partition",
	})
}
