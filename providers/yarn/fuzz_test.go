package yarn

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bursar/bursar/resource"
)

// FuzzDecode feeds anything to the decoder. It answers or refuses; what it answers holds together
// and does not depend on how the bytes arrive.
func FuzzDecode(f *testing.F) {
	for _, body := range payloads(f, ".json") {
		if len(body) < 20_000 {
			f.Add(body)
		}
	}
	for _, body := range payloads(f, ".txt") {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := Decode(bytes.NewReader(body))
		slowly, errSlowly := Decode(iotest.HalfReader(bytes.NewReader(body)))
		if err != nil {
			if _, is := errors.AsType[*AnswerError](err); !is || errSlowly == nil {
				t.Fatalf("%v; in halves %v", err, errSlowly)
			}
			return
		}
		if errSlowly != nil || entryLines(slowly) != entryLines(s) {
			t.Fatalf("in halves it is other: %v", errSlowly)
		}
		rows := map[queueKey]bool{}
		paths := map[string]bool{"": true}
		for _, e := range s.Entries {
			switch at := (queueKey{e.Path, e.Partition}); {
			case rows[at]:
				t.Fatalf("%v is there twice", at)
			case e.Path == "" || len(e.Path) > maxName:
				t.Fatalf("the path is %q", e.Path)
			case !paths[e.Parent]:
				t.Fatalf("%q comes before the queue above it", e.Path)
			case e.Parent != "" && !strings.HasPrefix(e.Path, e.Parent+"."):
				t.Fatalf("%q is not below %q", e.Path, e.Parent)
			default:
				rows[at], paths[e.Path] = true, true
			}
		}
		total := resource.Vector{}.WithMemory(math.MaxInt32).WithCPU(1e6)
		queues := s.Queues(map[string]resource.Vector{"": total})
		if len(queues) != len(s.Entries) {
			t.Fatalf("%d entries became %d queues", len(s.Entries), len(queues))
		}
		for _, q := range queues {
			for _, v := range []resource.Vector{q.Limit, q.Used, q.Guaranteed} {
				if err := v.Validate(); err != nil {
					t.Fatalf("%s: %v", q.Path, err)
				}
			}
			for _, n := range []*int32{q.Applications, q.Pending, q.Active, q.MaxApplications} {
				if n != nil && *n < 0 {
					t.Fatalf("%s has %d applications", q.Path, *n)
				}
			}
		}
	})
}
