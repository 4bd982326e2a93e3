package yarn

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cockroachdb/datadriven"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// TestScripts runs testdata/scripts: an answer, and the decoded result.
//
//	entries   the content of the answer, one line per queue and partition, without missing values
//	queues    the queues in a snapshot, given the size of partitions in MiB and cores:
//	          queues default=(1024,8) gpu=(512,4)
//
// Both print the error if there is one. Every answer is read twice, the second time byte by byte.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "scripts"), func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s, err := Decode(strings.NewReader(d.Input))
			slowly, errSlowly := Decode(iotest.OneByteReader(strings.NewReader(d.Input)))
			if err != nil {
				if errSlowly == nil || errSlowly.Error() != err.Error() {
					d.Fatalf(t, "byte by byte it is %v, and %v at once", errSlowly, err)
				}
				return err.Error() + "\n"
			}
			if errSlowly != nil || entryLines(slowly) != entryLines(s) {
				d.Fatalf(t, "byte by byte it is other: %v", errSlowly)
			}
			if d.Cmd == "queues" {
				return queueLines(s, totals(t, d))
			}
			return entryLines(s)
		})
	})
}

func totals(t *testing.T, d *datadriven.TestData) map[string]resource.Vector {
	t.Helper()
	sizes := map[string]resource.Vector{}
	for _, arg := range d.CmdArgs {
		memory, errMemory := strconv.ParseInt(arg.Vals[0], 10, 64)
		cpu, errCPU := strconv.ParseInt(arg.Vals[1], 10, 64)
		if errMemory != nil || errCPU != nil {
			d.Fatalf(t, "%v: want (MiB,cores)", arg)
		}
		partition := strings.TrimPrefix(arg.Key, "default")
		sizes[partition] = resource.Vector{}.WithMemory(memory << 20).WithCPU(cpu * 1000)
	}
	return sizes
}

func entryLines(s *Scheduler) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.Kind)
	for _, e := range s.Entries {
		b.WriteString(at(e.Path, e.Partition))
		sayVector(&b, "limit", e.Limit)
		sayVector(&b, "used", e.Used)
		sayVector(&b, "reserved", e.Reserved)
		sayVector(&b, "guaranteed", e.Guaranteed)
		rest(&b, providers.Queue{
			State: e.State, CreatesChildren: e.CreatesChildren, DefaultPartition: e.DefaultPartition,
			AbsoluteCapacity: e.AbsoluteCapacity, AbsoluteMaxCapacity: e.AbsoluteMaxCapacity,
			Applications: e.Applications, Pending: e.Pending, Active: e.Active, MaxApplications: e.MaxApplications,
		})
	}
	if doubts := s.Doubts(); doubts != "" {
		fmt.Fprintf(&b, "%s\n", doubts)
	}
	for _, partition := range s.Unsized() {
		fmt.Fprintf(&b, "unsized %q\n", partition)
	}
	return b.String()
}

func queueLines(s *Scheduler, totals map[string]resource.Vector) string {
	var b strings.Builder
	for _, q := range s.Queues(totals) {
		b.WriteString(at(q.Path, q.Partition))
		sayVector(&b, "limit", &q.Limit)
		sayVector(&b, "used", &q.Used)
		sayVector(&b, "guaranteed", &q.Guaranteed)
		if q.Closed {
			b.WriteString(" closed")
		}
		rest(&b, q)
	}
	return b.String()
}

func at(path, partition string) string {
	if partition == "" {
		return path
	}
	return path + "@" + partition
}

func sayVector(b *strings.Builder, name string, v *resource.Vector) {
	if v != nil {
		fmt.Fprintf(b, " %s(%v)", name, *v)
	}
}

func rest(b *strings.Builder, q providers.Queue) {
	if q.AbsoluteCapacity != nil {
		fmt.Fprintf(b, " absolute=%g%%", *q.AbsoluteCapacity)
	}
	if q.AbsoluteMaxCapacity != nil {
		fmt.Fprintf(b, " absoluteMax=%g%%", *q.AbsoluteMaxCapacity)
	}
	for _, count := range []struct {
		name string
		n    *int32
	}{{"applications", q.Applications}, {"pending", q.Pending}, {"active", q.Active}, {"most", q.MaxApplications}} {
		if count.n != nil {
			fmt.Fprintf(b, " %s=%d", count.name, *count.n)
		}
	}
	if q.State != "" {
		fmt.Fprintf(b, " %s", q.State)
	}
	if q.CreatesChildren {
		b.WriteString(" creates")
	}
	if q.DefaultPartition != "" {
		fmt.Fprintf(b, " default=%s", q.DefaultPartition)
	}
	b.WriteString("\n")
}

// Sums always stay in the range of a quantity, and of a count.
func TestSumsStayInRange(t *testing.T) {
	v := plus(resource.Vector{}.WithMemory(resource.MaxQuantity), resource.Vector{}.WithMemory(1).With("gpu", 2))
	if want := (resource.Vector{}.WithMemory(resource.MaxQuantity).With("gpu", 2)); !v.Equal(want) {
		t.Errorf("the sum is %v, want %v", v, want)
	}
	var many resource.Vector
	for i := range resource.MaxCustom {
		many = many.With("type"+strconv.Itoa(i), 1)
	}
	if sum := plus(many, resource.Vector{}.WithMemory(1).With("type0", 1).With("another", 1)); sum.Validate() != nil || !sum.Equal(many.WithMemory(1).With("type0", 2)) {
		t.Errorf("the sum is %v", sum)
	}
	if n := plusCount(new(int32(math.MaxInt32)), new(int32(5))); *n != math.MaxInt32 {
		t.Errorf("the count is %d", *n)
	}
}
