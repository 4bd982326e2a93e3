package providers

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/resource"
)

// MostPartition is the largest length of the partition in an address, in characters.
const MostPartition = 128

// cleanNames moves the queues that no request can name from s.Queues to s.Unaddressable. The other
// queues stay unchanged: users of a cluster choose names, and no name may hide another queue.
func cleanNames(s *Snapshot) {
	type place struct{ path, partition string }
	first := make(map[place]int, len(s.Queues))
	told := len(s.Unaddressable) + s.MoreUnaddressable
	kept := make([]Queue, 0, len(s.Queues))
	for i := range s.Queues {
		q := &s.Queues[i]
		reason := unaddressable(q)
		at := place{q.Path, q.Partition}
		if before, twice := first[at]; reason == "" && twice {
			reason = "another queue has the same path"
			kept[before].Closed = true
			if !strings.HasSuffix(kept[before].State, reason) {
				kept[before].State = strings.TrimPrefix(kept[before].State+", and "+reason, ", and ")
			}
		}
		if reason == "" {
			first[at] = len(kept)
			kept = append(kept, *q)
			continue
		}
		if len(s.Unaddressable) >= MostUnaddressable {
			s.MoreUnaddressable++
			continue
		}
		name := q.Path
		if q.Parent != "" {
			name = strings.TrimPrefix(name, q.Parent+".")
		}
		s.Unaddressable = append(s.Unaddressable, Unaddressable{
			Name: spelling.Quoted(name, maxWord), Parent: q.Parent, Partition: q.Partition, Reason: reason,
		})
	}
	s.Queues = kept
	if n := len(s.Unaddressable) + s.MoreUnaddressable; n > told {
		doubt := fmt.Sprintf("queues that no request can name: %d", n-told)
		s.Doubts = strings.Join(slices.DeleteFunc([]string{s.Doubts, doubt}, func(text string) bool { return text == "" }), "; ")
	}
	s.Unaddressable = slices.Clone(s.Unaddressable) // the provider may keep its list
	for i := range s.Unaddressable {
		u := &s.Unaddressable[i]
		u.Reason = word(u.Reason)
		for _, text := range []*string{&u.Name, &u.Parent, &u.Partition} {
			if !shown(*text) || len(*text) > 4*maxWord {
				*text = spelling.Quoted(*text, maxWord)
			}
		}
	}
}

// unaddressable returns the reason why no request can name a queue; empty if one can.
func unaddressable(q *Queue) string {
	switch {
	case !utf8.ValidString(q.Path) || !utf8.ValidString(q.Parent):
		return "its name is not UTF-8"
	case !shown(q.Path) || !shown(q.Parent):
		return "its name has characters that cannot be seen"
	case !shown(q.Partition):
		return "its partition has characters that cannot be seen"
	case strings.ContainsRune(q.Path, utf8.RuneError):
		return "its name has lost characters (U+FFFD)"
	case q.Path == resource.Any || q.Partition == AnyPartition:
		return `"*" stands for every queue and partition`
	case strings.Contains("."+q.Path+".", ".."):
		return "it has no name, or a queue above it has none"
	case !resource.ValidPath(q.Path):
		return "its path is too long: " + resource.WantPath
	case utf8.RuneCountInString(q.Partition) > MostPartition:
		return fmt.Sprintf("its partition has more than %d characters", MostPartition)
	}
	return ""
}
