package yarn

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/resource"
)

// FuzzDecode feeds any input to the decoder, which must return an error or a consistent answer. The
// result must not depend on the sizes of the reads.
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
		checkQueues(t, s)
	})
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkQueues checks that the quantities of the queues are in range.
func checkQueues(t failer, s *Scheduler) {
	t.Helper()
	total := resource.Vector{}.WithMemory(math.MaxInt32).WithCPU(1e6)
	queues := s.Queues(map[string]resource.Vector{"": total})
	if len(queues) != len(s.Entries) {
		t.Fatalf("%d entries became %d queues", len(s.Entries), len(queues))
	}
	for _, q := range queues {
		vectors := []resource.Vector{q.Limit, q.Used, q.Guaranteed, q.UserLimit}
		for _, u := range q.Users {
			vectors = append(vectors, u.Limit, u.Used)
		}
		for _, v := range vectors {
			if err := v.Validate(); err != nil {
				t.Fatalf("%s: %v", q.Path, err)
			}
		}
		for _, n := range []*int32{q.Applications, q.Pending, q.Active, q.MaxApplications} {
			if n != nil && *n < 0 {
				t.Fatalf("%s has %d applications", q.Path, *n)
			}
		}
		for _, share := range []*float64{q.AbsoluteCapacity, q.AbsoluteMaxCapacity} {
			if share != nil && !(*share >= 0 && *share <= maxFigure) {
				t.Fatalf("%s has a share of %g", q.Path, *share)
			}
		}
	}
	if doubts := s.Doubts(); len(doubts) > 8*(maxName+100) {
		t.Fatalf("%d bytes of doubts", len(doubts))
	}
}

// figures matches the numbers in an answer.
var figures = regexp.MustCompile(`: ?-?[0-9][0-9.eE+-]*`)

// With any numbers in a real answer, the decoder returns an error or quantities in range.
func TestAbsurdFiguresDoNoHarm(t *testing.T) {
	bodies := payloads(t, ".json")
	maps.DeleteFunc(bodies, func(_ string, body []byte) bool { return len(body) > 60_000 })
	files := slices.Sorted(maps.Keys(bodies))
	absurd := []string{
		"-3", "-1", "0", "200", "1e308", "-1e308", "NaN", "-INF", "Infinity", "1e-320", "2147483648", "9223372036854775807", "-9223372036854775808",
		"99999999999999999999999", "0.1", `"-3"`, `"1e308"`, "null", "true", "[]", "{}", `""`,
	}
	rapid.Check(t, func(t *rapid.T) {
		body := string(bodies[rapid.SampledFrom(files).Draw(t, "file")])
		few := rapid.IntRange(0, 20).Draw(t, "few")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		body = figures.ReplaceAllStringFunc(body, func(figure string) string {
			if random.IntN(few+1) > 0 {
				return figure
			}
			return ":" + absurd[random.IntN(len(absurd))]
		})
		s, err := Decode(strings.NewReader(body))
		if err != nil {
			if _, is := errors.AsType[*AnswerError](err); !is {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, calculator := range []Calculator{"", CalculatorDefault, CalculatorDominant} {
			s.Assume.Calculator = calculator
			checkQueues(t, s)
		}
	})
}
