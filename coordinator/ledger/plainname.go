package ledger

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/bursar/bursar/internal/spelling"
)

// # Names that look like others
//
// A cluster may make a queue when somebody uses it, so a request may name any. A name that looks
// like that of another queue would be one without a limit of its own, next to the one that is
// meant. So a request may name such a queue only if the cluster has it.

const wantPlain = `names without blanks at their ends, without "*", and without characters that cannot be seen`

// checkPlain refuses a part in a place of the cluster that only looks like another one.
func (c *cluster) checkPlain(field, path, partition string) error {
	if _, there := c.standard[path]; !there && !plainPath(path) {
		return &FieldError{field + ".path", path, wantPlain + ", such as " + strconv.Quote(plainly(path))}
	}
	if !plainName(partition) {
		return &FieldError{field + ".partition", partition, wantPlain}
	}
	return nil
}

// plainPath reports whether the names of a path look like what they are.
func plainPath(path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		if !plainName(name) {
			return false
		}
	}
	return true
}

func plainName(name string) bool {
	return name == strings.TrimSpace(name) && !strings.ContainsFunc(name, func(r rune) bool { return r == '*' || spelling.Unseen(r) })
}

// plainly returns a path with only its visible characters. A name without any becomes NAME.
func plainly(path string) string {
	names := strings.Split(path, ".")
	for i, name := range names {
		name = strings.Map(func(r rune) rune {
			if r == '*' || spelling.Unseen(r) && !unicode.IsSpace(r) {
				return -1
			}
			return r
		}, name)
		if names[i] = strings.Join(strings.Fields(name), " "); names[i] == "" {
			names[i] = "NAME"
		}
	}
	return strings.Join(names, ".")
}

// takes is the full path of a queue that an application runs in, if a part may follow it there;
// empty: it may not, or it cannot be told which queue it is.
func (r *reading) takes(queue string) string {
	path := r.pathOf(queue)
	if _, there := r.standard[path]; r.parents[path] || !there && !plainPath(path) {
		return ""
	}
	return path
}
