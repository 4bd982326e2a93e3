package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// Decode reads what a command printed. It must be one JSON object, with no field that is not known
// and none that occurs twice. The error is an *AnswerError.
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
			err = r.json.SkipValue() // it was looked at
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

// wellFormed checks that there is one JSON value, and nothing behind it.
func wellFormed(data []byte) error {
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return missing("", "one JSON object; the command printed nothing there")
	case !utf8.Valid(data):
		return refuse("", quoted(string(data[:min(len(data), 2*maxShown)])), "text in UTF-8")
	}
	var value json.RawMessage
	err := json.Unmarshal(data, &value)
	wrong, is := errors.AsType[*json.SyntaxError](err)
	if !is {
		return nil
	}
	// the line that is wrong, or the part of it around the place
	at := max(0, int(wrong.Offset)-1)
	first := max(0, at-maxShown/2, bytes.LastIndexByte(data[:at], '\n')+1)
	line, _, _ := bytes.Cut(data[first:min(len(data), first+2*maxShown)], []byte("\n"))
	return refuse("", quoted(strings.ToValidUTF8(string(line), "")), fmt.Sprintf("one JSON object (byte %d: %s)", at+1, printable(wrong.Error())))
}

// checkVersion looks for the version first, so that an answer of a later one is refused for that,
// and not for a field that is not known yet.
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
	used := false
	err = r.object(at, "path, partition, limit, used, guaranteed, mayGrow, heldBack, state or closed", func(key, at string) (known bool, err error) {
		switch key {
		case "path":
			q.Path, err = r.text(at, 0)
		case "partition":
			q.Partition, err = r.text(at, maxPartition)
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
	if err := checkPlace(at, q.Path, q.Partition); err != nil {
		return q, err
	}
	// A figure that is left out by mistake would be room that is not there.
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
		case n <= most: // it is as large as it becomes, or larger
			q.MayGrow = q.MayGrow.Without(dimension)
		}
	}
	return q, nil
}

// heldBack reads what the system does not start although there is room.
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

// fieldOf is the field of a dimension.
func fieldOf(dimension string) string {
	switch dimension {
	case resource.Memory, resource.CPU, resource.Instances:
		return dimension
	}
	return "custom." + dimension
}

// checkPlace checks the address of a queue: somebody must be able to ask for it.
func checkPlace(at, path, partition string) error {
	const wantText = "no commas, no @, no colons, no *, and no blanks at its ends"
	switch {
	case path == "":
		return missing(at+".path", "the path of the queue, such as licences or team-a.batch")
	case !resource.ValidPath(path):
		return refuse(at+".path", quoted(path), "1 to 32 names with a dot between two, of at most 512 characters together")
	case !writable(path):
		return refuse(at+".path", quoted(path), wantText)
	case !writable(partition):
		return refuse(at+".partition", quoted(partition), wantText)
	}
	return nil
}

// writable reports whether a name can be written on a command line, and means itself in a limit.
func writable(name string) bool {
	return strings.TrimSpace(name) == name && !strings.ContainsAny(name, ",@:*")
}

// application reads one application.
func (r reader) application(at string) (a providers.Application, err error) {
	var partition string
	var held resource.Vector
	given := false
	a.Known = true
	err = r.object(at, "id, queue, partition, user, allocated or ended", func(key, at string) (known bool, err error) {
		switch key {
		case "id":
			a.ID, err = r.text(at, maxID)
		case "queue":
			a.Queue, err = r.text(at, 0)
		case "partition":
			partition, err = r.text(at, maxPartition)
		case "user":
			a.User, err = r.text(at, maxText)
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
	case a.Queue == "":
		return a, missing(at+".queue", "the path of its queue")
	case !given && !a.Ended:
		return a, missing(at+".allocated", "what it holds in its queue, or {} for nothing")
	}
	a.Allocated = map[string]resource.Vector{partition: held}
	return a, nil
}

// check checks the parts of an answer against each other, and fills in the queues above.
func (a *Answer) check() error {
	type place struct{ path, partition string }
	indexes := make(map[place]int, len(a.Queues))
	for i := range a.Queues {
		q := &a.Queues[i]
		at := place{q.Path, q.Partition}
		if before, twice := indexes[at]; twice {
			return refuse(fmt.Sprintf("queues[%d].path", i), quoted(q.Path), fmt.Sprintf("each path once in each partition; queues[%d] has it, too", before))
		}
		indexes[at] = i
	}
	for i := range a.Queues {
		q := &a.Queues[i]
		dot := strings.LastIndexByte(q.Path, '.')
		if dot < 0 {
			continue
		}
		q.Parent = q.Path[:dot]
		above, there := indexes[place{q.Parent, q.Partition}]
		if !there {
			return refuse(fmt.Sprintf("queues[%d].path", i), quoted(q.Path),
				fmt.Sprintf("the queue above it, %s, in the list and in the same partition; it needs no limit. Or a path without dots", quoted(q.Parent)))
		}
		for _, countable := range q.Limit.Custom() {
			if !a.Queues[above].Limit.Has(countable.Name) {
				return missing(fmt.Sprintf("queues[%d].limit.custom.%s", above, countable.Name),
					fmt.Sprintf("a limit, as queues[%d] below it has one; a custom countable that is not listed is none", i))
			}
		}
	}
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
