package turns

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// ample has limits that no test reaches.
func ample() Limits {
	return Limits{Caller: 1 << 30, All: 1 << 30, Commands: 1 << 30, Bytes: 1 << 50, Time: time.Hour}
}

func owner(name string) Owner { return Owner{Callers, name} }

// load keeps commands of an owner waiting, all of the same cost.
type load struct {
	Owner

	cost Cost
}

// serve takes a number of commands from endless loads, and returns the time of each load.
func serve(t *testing.T, q *Queue[int], loads []load, commands int) []time.Duration {
	t.Helper()
	had := make([]time.Duration, len(loads))
	for i := range loads {
		q.Force(loads[i].Owner, i)
		q.Force(loads[i].Owner, i)
	}
	for range commands {
		i, ok := q.Next()
		if !ok {
			t.Fatal("nothing waits")
		}
		q.Charge(loads[i].cost)
		q.Force(loads[i].Owner, i)
		had[i] += loads[i].cost.total()
	}
	return had
}

func TestWhatACallerSendsIsDoneInItsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := New[string](Limits{Caller: 20, All: 60, Commands: 8, Bytes: 1 << 10, Time: time.Millisecond})
		want := make(map[Owner][]string)
		length := 0
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1, 2:
				o := Owner{Class(rapid.IntRange(0, int(classCount)-1).Draw(t, "class")), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")}
				if q.Put(o, o.Name+strconv.Itoa(i)) {
					want[o] = append(want[o], o.Name+strconv.Itoa(i))
					length++
				} else if len(want[o]) == 0 && length < 60 {
					t.Fatalf("%v has nothing here and is refused at %d", o, length)
				}
			case 3, 4:
				got, ok := q.Next()
				if ok != (length > 0) {
					t.Fatalf("%d wait, and the next one is %q, %t", length, got, ok)
				}
				if !ok {
					continue
				}
				length--
				of := func(o Owner) bool { return len(want[o]) > 0 && want[o][0] == got }
				found := false
				for o := range want {
					if of(o) {
						want[o], found = want[o][1:], true
						break
					}
				}
				if !found {
					t.Fatalf("%q is not the first of anybody: %v", got, want)
				}
				q.Charge(Cost{Time: time.Duration(rapid.IntRange(0, 2000).Draw(t, "µs")) * time.Microsecond, Bytes: rapid.Int64Range(0, 2048).Draw(t, "bytes")})
			default:
				q.NextBatch()
			}
			if q.Len() != length {
				t.Fatalf("%d wait, Len says %d", length, q.Len())
			}
		}
	})
}

// Callers with endless loads get the same time, except for one turn and the largest command of
// each, however different their commands are.
func TestCallersWhoNeverStopGetTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := New[int](ample())
		costs := rapid.SliceOfN(rapid.IntRange(1, 3000), 2, 6).Draw(t, "µs")
		had := make([]time.Duration, len(costs))
		for i := range costs {
			q.Force(owner(strconv.Itoa(i)), i)
			q.Force(owner(strconv.Itoa(i)), i)
		}
		for range 3000 {
			i, _ := q.Next()
			cost := Cost{Time: time.Duration(costs[i]) * time.Microsecond}
			q.Charge(cost)
			q.Force(owner(strconv.Itoa(i)), i)
			had[i] += cost.total()
			largest := time.Duration(slices.Max(costs)) * time.Microsecond
			if most := slices.Max(had) - slices.Min(had); most > 2*(quantum+largest) {
				t.Fatalf("costs %v, and they have had %v", costs, had)
			}
		}
	})
}

func TestRowsCountAsTime(t *testing.T) {
	had := serve(t, New[int](ample()), []load{
		{owner("small"), Cost{Time: 10 * time.Microsecond, Bytes: 300}},
		{owner("large"), Cost{Time: 10 * time.Microsecond, Bytes: 64 << 10}},
	}, 20000)
	if diff := (had[0] - had[1]).Abs(); diff > time.Millisecond {
		t.Errorf("of the same time they have had %v", had)
	}
}

func TestClassesShareTheLoop(t *testing.T) {
	cost := Cost{Time: 10 * time.Microsecond}
	had := serve(t, New[int](ample()), []load{
		{Owner{Hosts, "h1"}, cost}, {Owner{Hosts, "h2"}, cost}, {Owner{Callers, "alice"}, cost}, {Owner{Operators, "root"}, cost},
	}, 90000)
	for i, want := range []float64{2. / 9, 2. / 9, 4. / 9, 1. / 9} {
		if got := had[i].Seconds() / 0.9; got < want*0.98 || got > want*1.02 {
			t.Errorf("load %d has had %.3f of the time; want %.3f", i, got, want)
		}
	}
}

// A newcomer waits for one turn of each other caller, however many commands they have waiting.
func TestANewcomerWaitsForOneTurnOfTheOthers(t *testing.T) {
	q := New[int](ample())
	const others, cost = 3, 50 * time.Microsecond
	for i := range 1000 * others {
		q.Force(owner(strconv.Itoa(i%others)), i)
	}
	for range 7 {
		q.Next()
		q.Charge(Cost{Time: cost})
	}
	q.Force(owner("late"), -1)
	waited := time.Duration(0)
	for i, _ := q.Next(); i >= 0; i, _ = q.Next() {
		q.Charge(Cost{Time: cost})
		waited += cost
	}
	if waited > others*quantum {
		t.Errorf("it waited %s; want %s at most", waited, others*quantum)
	}
}

// A caller whose single command took 4 ms pays for it while others wait, and only then. For a
// command that took a second it pays 5 ms.
func TestWhoTookTooMuchWaitsUntilOthersHaveHadAsMuch(t *testing.T) {
	slow, quick := owner("slow"), owner("quick")
	for took, want := range map[time.Duration]time.Duration{4 * time.Millisecond: 4 * time.Millisecond, time.Second: 5 * time.Millisecond} {
		q := New[int](ample())
		q.Force(slow, 1)
		q.Force(quick, 2)
		q.Force(quick, 2)
		q.Next()
		q.Charge(Cost{Time: took})
		q.Force(slow, 1) // nothing of it waited for a moment
		had := time.Duration(0)
		for i, _ := q.Next(); i == 2; i, _ = q.Next() {
			q.Charge(Cost{Time: 100 * time.Microsecond})
			had += 100 * time.Microsecond
			q.Force(quick, 2)
		}
		if had < want-quantum || had > want+quantum {
			t.Errorf("after %s the other one has had %s meanwhile; want %s", took, had, want)
		}
		q.Charge(Cost{Time: took})
		for _, ok := q.Next(); ok; _, ok = q.Next() {
			q.Charge(Cost{})
		}
		q.Force(slow, 1) // the loop was idle: the debt is forgiven
		q.Force(quick, 2)
		if i, _ := q.Next(); i != 1 {
			t.Errorf("%d is the first; want 1, which came first", i)
		}
	}
}

func TestABatchHasEnoughByEachOfItsBounds(t *testing.T) {
	limits := Limits{Caller: 9, All: 99, Commands: 3, Bytes: 1000, Time: time.Millisecond}
	for what, test := range map[string]struct {
		cost Cost
		want int
	}{
		"commands": {Cost{}, 3},
		"bytes":    {Cost{Bytes: 500}, 2},
		"time":     {Cost{Time: time.Millisecond}, 1},
	} {
		q := New[int](limits)
		for range 2 {
			n := 0
			for ; !q.Full(); n++ {
				q.Force(owner("alice"), n)
				q.Next()
				q.Charge(test.cost)
			}
			if n != test.want {
				t.Errorf("%s: a batch of %d; want %d", what, n, test.want)
			}
			q.NextBatch()
		}
	}
}

func TestNobodyHasMoreThanHalfOfABatchWhileOthersWait(t *testing.T) {
	limits := ample()
	limits.Commands = 10
	q := New[string](limits)
	take := func(n int) (list []string) {
		for range n {
			of, _ := q.Next()
			q.Charge(Cost{})
			list = append(list, of)
		}
		return list
	}
	for range 20 {
		q.Force(owner("mallory"), "mallory")
	}
	take(4)
	for range 3 {
		q.Force(Owner{Operators, "root"}, "root")
		q.Force(owner("alice"), "alice")
	}
	got := take(6)
	count := func(of string) (n int) {
		for _, name := range got {
			if name == of {
				n++
			}
		}
		return n
	}
	if !q.Full() || count("mallory") != 1 || count("alice")+count("root") != 5 {
		t.Errorf("after 4 of mallory's: %v; want 1 more of his, and 5 of others", got)
	}
	q.NextBatch()
	if got = take(10); count("mallory") != 9 { // the last of the others; after it nobody else waits
		t.Errorf("%v; want all that is left", got)
	}
}

func TestAFullQueueIsFullForItsCaller(t *testing.T) {
	q := New[int](Limits{Caller: 10, All: 64, Commands: 1, Bytes: 1, Time: 1})
	put := func(name string) (n int) {
		for q.Put(owner(name), 0) {
			n++
		}
		return n
	}
	counts := []int{}
	for i := range 9 {
		counts = append(counts, put(fmt.Sprint(i)))
	}
	// ten each, and then half of the rest: there is room for newcomers
	if want := []int{10, 10, 10, 10, 10, 7, 3, 2, 1}; !slices.Equal(counts, want) {
		t.Errorf("%v of each; want %v", counts, want)
	}
	if q.Put(owner("0"), 0) || !q.Put(owner("new"), 0) {
		t.Error("who has ten is refused, and who has none is not")
	}
	q.Force(owner("0"), 0)
	if q.Len() != 65 {
		t.Errorf("%d wait; want 65", q.Len())
	}
}

func TestNothingIsLeftOfCallersWhoHaveGone(t *testing.T) {
	q := New[int](ample())
	for i := range 1000 {
		q.Force(Owner{Class(i % int(classCount)), strconv.Itoa(i)}, i)
	}
	for _, ok := q.Next(); ok; _, ok = q.Next() {
		q.Charge(Cost{Time: time.Second})
	}
	q.NextBatch()
	for i := range q.groups {
		if g := &q.groups[i]; len(g.callers) > 0 || g.line.len() > 0 || g.waiting > 0 || cap(g.line.list) > keptCap {
			t.Errorf("class %d: %d callers, %d in line, %d said to wait, room for %d", i, len(g.callers), g.line.len(), g.waiting, cap(g.line.list))
		}
	}
	if len(q.resting)+len(q.above) > 0 {
		t.Errorf("%d have a part of the batch, %d half of it", len(q.resting), len(q.above))
	}
}

// The list of a caller with always one waiting command does not grow.
func TestALineThatNeverEndsDoesNotGrow(t *testing.T) {
	var f fifo[int]
	f.push(0)
	for i := range 100_000 {
		f.push(i + 1)
		if got := f.pop(); got != i {
			t.Fatalf("got %d, want %d", got, i)
		}
	}
	if cap(f.list) > keptCap {
		t.Errorf("room for %d", cap(f.list))
	}
}

// Work before a command that belongs to no caller fills the batch, and costs no caller its turn.
func TestWhatIsNobodysIsOfTheBatchAlone(t *testing.T) {
	limits := ample()
	limits.Time = time.Millisecond
	q := New[string](limits)
	for _, command := range []string{"a1", "a2", "b1"} {
		q.Force(owner(command[:1]), command)
	}
	var got []string
	for range 3 {
		command, _ := q.Next()
		got = append(got, command)
		q.Charge(Cost{Time: 100 * time.Microsecond})
		q.Spend(Cost{Time: time.Millisecond, Bytes: -1})
		if !q.Full() {
			t.Error("the batch has room after a millisecond")
		}
		q.NextBatch()
	}
	if want := []string{"a1", "a2", "b1"}; !slices.Equal(got, want) {
		t.Errorf("served %v; want %v", got, want)
	}
}
