package providers

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/resource"
)

const (
	maxText = 1200 // bytes of a message
	maxWord = 120  // bytes of a cluster's word, such as a state or a version
)

// Said makes a cluster's text, such as an error of its provider, safe to show and log: one line of
// at most 1,200 bytes, without terminal control characters.
func Said(text string) string { return spelling.Line(text, maxText) }

// Clean returns a provider whose texts are safe to show and log, whatever the cluster says. A queue
// that no request can name, because of its own name or its partition's name, moves from
// Snapshot.Queues to Snapshot.Unaddressable. If two queues have the same path, the first one is
// closed. Clean drops users whose names are not printable, and applications that run in such a
// queue or as such a user. Errors are unchanged; see Said.
func Clean(p Provider) Provider {
	if counted, is := p.(Counted); is {
		return &cleanCounted{clean{p}, counted}
	}
	return &clean{p}
}

type clean struct{ Provider }

type cleanCounted struct {
	clean
	counted Counted
}

// Requests returns the provider's number of requests.
func (c *cleanCounted) Requests() int64 { return c.counted.Requests() }

// Snapshot returns the provider's snapshot, cleaned.
func (c *clean) Snapshot(ctx context.Context) (Snapshot, error) {
	s, err := c.Provider.Snapshot(ctx)
	s.Server, s.Untrusted, s.Doubts = word(s.Server), Said(s.Untrusted), Said(s.Doubts)
	cleanNames(&s)
	for i := range s.Queues {
		q := &s.Queues[i]
		q.State, q.HeldBackBy = word(q.State), Said(q.HeldBackBy)
		if !shown(q.DefaultPartition) {
			q.DefaultPartition = ""
		}
		q.Users = slices.DeleteFunc(q.Users, func(u User) bool { return !shown(u.Name) })
	}
	return s, err
}

// Applications returns the provider's applications, cleaned.
func (c *clean) Applications(ctx context.Context, ids []string) ([]Application, error) {
	list, err := c.Provider.Applications(ctx, ids)
	list = slices.DeleteFunc(list, func(a Application) bool { return !shown(a.ID) || !shown(a.Queue) || !shown(a.User) })
	for i := range list {
		a := &list[i]
		a.Failure, a.Diagnostics = word(a.Failure), Said(a.Diagnostics)
		for partition := range a.Allocated {
			if !shown(partition) {
				a.Allocated = maps.Clone(a.Allocated) // the provider may keep the map
				maps.DeleteFunc(a.Allocated, func(p string, _ resource.Vector) bool { return !shown(p) })
				break
			}
		}
	}
	return list, err
}

// Servers returns the provider's servers, cleaned except for their errors.
func (c *clean) Servers(ctx context.Context) []Server {
	list := c.Provider.Servers(ctx)
	for i := range list {
		s := &list[i]
		s.Address, s.Role, s.Version = word(s.Address), word(s.Role), word(s.Version)
	}
	return list
}

func word(text string) string { return spelling.Line(text, maxWord) }

// shown reports whether a name consists of printable characters.
func shown(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) })
}
