package ledger

import (
	"testing"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Requests wait as one class if they are alike. If some account or host treats two requests
// differently, they are in two classes: otherwise the first of a class would stand for others that
// are different.
func TestRequestsThatDifferInAnythingAreOfDifferentClasses(t *testing.T) {
	part := func(change func(*resource.External)) func(*Allocation) {
		return func(a *Allocation) {
			x := a.Entitled.External[0]
			change(&x)
			a.Entitled.External = []resource.External{x}
		}
	}
	wishes := func(w Wishes) func(*Allocation) { return func(a *Allocation) { a.Wishes = &w } }
	variants := map[string]func(*Allocation){
		"as they are": func(*Allocation) {},
		"priority":    func(a *Allocation) { a.Priority = 1 },
		"host":        func(a *Allocation) { a.HostID = "h1" },
		// a host may be closed to one of them
		"caller":                   func(a *Allocation) { a.Caller = "bob" },
		"another label":            func(a *Allocation) { a.Labels = label.Of("user", "bob") },
		"one more label":           func(a *Allocation) { a.Labels = label.Of("user", "alice", "creator", "IDE") },
		"no label":                 func(a *Allocation) { a.Labels = nil },
		"more memory":              func(a *Allocation) { a.Entitled.Vector = a.Entitled.WithMemory(2) },
		"as much of another":       func(a *Allocation) { a.Entitled.Vector = resource.Vector{}.WithCPU(1) },
		"a dimension more":         func(a *Allocation) { a.Entitled.Vector = a.Entitled.With("gpu", 1) },
		"no part elsewhere":        func(a *Allocation) { a.Entitled.External = nil },
		"two parts elsewhere":      func(a *Allocation) { a.Entitled.External = append(a.Entitled.External[:1:1], a.Entitled.External[0]) },
		"kind of the part":         part(func(x *resource.External) { x.Kind = "kubernetes" }),
		"cluster of the part":      part(func(x *resource.External) { x.Cluster = "dev" }),
		"path of the part":         part(func(x *resource.External) { x.Path = "root.b" }),
		"partition of the part":    part(func(x *resource.External) { x.Partition = "gpu" }),
		"size of the part":         part(func(x *resource.External) { x.Vector = resource.Vector{}.WithMemory(2) }),
		"wishes":                   wishes(Wishes{}),
		"a required label":         wishes(Wishes{Required: label.Of("disk", "ssd")}),
		"another required label":   wishes(Wishes{Required: label.Of("disk", "hdd")}),
		"a preferred label":        wishes(Wishes{Preferred: label.Of("disk", "ssd")}),
		"another preferred label":  wishes(Wishes{Preferred: label.Of("disk", "hdd")}),
		"a host to avoid":          wishes(Wishes{Avoid: []string{"h1"}}),
		"another host to avoid":    wishes(Wishes{Avoid: []string{"h2"}}),
		"a required, and to avoid": wishes(Wishes{Required: label.Of("disk", "ssd"), Avoid: []string{"h1"}}),
	}
	for name, text := range map[string]string{"a rule": "zone in (a,b)", "another rule": "!old"} {
		rule := []label.Rule{ruleOf(t, text)}
		variants["required: "+name] = wishes(Wishes{Rules: &Rules{Required: rule}})
		variants["preferred: "+name] = wishes(Wishes{Rules: &Rules{Preferred: rule}})
		variants["to avoid: "+name] = wishes(Wishes{Rules: &Rules{Avoided: rule}})
	}
	seen := make(map[string]string)
	for name, change := range variants {
		a := Allocation{Labels: label.Of("user", "alice"), Entitled: resource.NewResource(resource.Vector{}.WithMemory(1),
			resource.External{Address: resource.Address{Kind: "yarn", Cluster: "prod", Path: "root.a"}, Vector: resource.Vector{}.WithMemory(1)})}
		change(&a)
		key := string(classKey(nil, &a))
		if other, taken := seen[key]; taken {
			t.Errorf("%s and %s: one class", name, other)
		}
		seen[key] = name
		a.ID, a.RequestID, a.Created = 7, "r", 9 // which of them it is
		if string(classKey(nil, &a)) != key {
			t.Errorf("%s: two that are alike are of different classes", name)
		}
	}
}

// waitingClass is a class of requests with these ids.
func waitingClass(s *share, request resource.Vector, ids ...ID) *class {
	c := &class{share: s, request: request, members: newMembers()}
	for _, id := range ids {
		c.add(&entry{Allocation: Allocation{ID: id}, waitState: &waitState{}})
	}
	return c
}

// A class has the place of its first member, also after an older one has come back, and after the
// first has left.
func TestAClassMovesWithItsFirstMember(t *testing.T) {
	for name, shares := range map[string][2]*share{
		"of one share":    func() [2]*share { s := &share{weight: 1}; return [2]*share{s, s} }(),
		"of equal shares": {{weight: 1}, {weight: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var q queue
			one, two := waitingClass(shares[0], resource.Vector{}, 5, 9), waitingClass(shares[1], resource.Vector{}, 7)
			q.push(one)
			q.push(two)
			first := func(want ID) {
				t.Helper()
				if got := q.first().ID; got != want {
					t.Errorf("first is %d; want %d", got, want)
				}
			}
			first(5)
			back := &entry{Allocation: Allocation{ID: 3}, waitState: &waitState{}}
			two.add(back)
			first(3)
			two.remove(back)
			first(5)
			one.remove(one.first())
			first(7)
			two.remove(two.first())
			first(9)
			if q.waiting != 1 {
				t.Errorf("%d wait; want 1", q.waiting)
			}
		})
	}
}

// A class may be in no queue for a moment, while the classes behind it are tried.
func TestTheLastOfAClassThatWaitsNowhereMayLeave(t *testing.T) {
	c := waitingClass(&share{weight: 1}, resource.Vector{}, 1)
	e := c.first()
	c.remove(e)
	if e.class != nil || len(c.members.items) != 0 {
		t.Error("it has not left")
	}
}

// No request in a queue is tried if less is free than each of them asks for, and one is tried if
// it may be enough for one.
func TestAQueueIsHopelessWhereNobodyCanHaveEnough(t *testing.T) {
	s := &share{weight: 1}
	var q queue
	if !q.hopeless([3]int64{9, 9, 9}) {
		t.Error("nobody waits, and there is hope")
	}
	vector := func(memory, cpu, instances int64) resource.Vector {
		return resource.Vector{}.WithMemory(memory).WithCPU(cpu).WithInstances(instances)
	}
	q.push(waitingClass(s, vector(1, 4000, 3), 1))
	q.push(waitingClass(s, vector(5, 1000, 2), 2))
	q.push(waitingClass(s, vector(7, 2000, 9), 3))
	for _, test := range []struct {
		free     [3]int64
		hopeless bool
	}{
		{[3]int64{1, 4000, 3}, false},
		{[3]int64{5, 1000, 2}, false},
		{[3]int64{7, 2000, 9}, false},
		{[3]int64{0, 9000, 9}, true},
		{[3]int64{9, 999, 9}, true},
		{[3]int64{9, 9000, 1}, true},
	} {
		if got := q.hopeless(test.free); got != test.hopeless {
			t.Errorf("%v is free: hopeless is %t; want %t", test.free, got, test.hopeless)
		}
	}
	// A request that asks for nothing of a dimension lacks nothing, even if less than zero is
	// left; one that asks for 1 lacks 1.
	for i, name := range []string{resource.Memory, resource.CPU, resource.Instances} {
		free := [3]int64{9, 9, 9}
		var one, none queue
		one.push(waitingClass(s, vector(1, 1, 1), 1))
		none.push(waitingClass(s, vector(1, 1, 1).With(name, 0), 1))
		for _, n := range []int64{0, -5} {
			if free[i] = n; !one.hopeless(free) || none.hopeless(free) {
				t.Errorf("%d is left of %s: hopeless for one of it: %t, for none of it: %t", n, name, one.hopeless(free), none.hopeless(free))
			}
		}
	}
}

// Behind a queue of an external cluster counts what a request asks for there, not what it asks of
// hosts.
func TestAClusterQueueCountsWhatIsAskedOfIt(t *testing.T) {
	other, own := &clusterQueue{}, &clusterQueue{}
	q := queue{clusterQueue: own}
	e := &entry{waitState: &waitState{}, external: &external{charges: []queueCharge{
		{queue: other, vector: resource.Vector{}.WithMemory(9)}, {queue: own, vector: resource.Vector{}.WithMemory(2)},
	}}}
	c := &class{share: &share{weight: 1}, request: resource.Vector{}.WithMemory(5), members: newMembers()}
	c.add(e)
	q.push(c)
	if q.hopeless([3]int64{2, 0, 0}) || !q.hopeless([3]int64{1, 0, 0}) {
		t.Errorf("the least that is asked for is %v; want 2 of memory", q.least)
	}
}

// Subordinate ids of one user, and the user, wait as one class: otherwise each of them would have
// turns of its own.
func TestRequestsOfOneOwnersIDsAreOfOneClass(t *testing.T) {
	key := func(caller string, subordinate bool, user string) string {
		return string(classKey(nil, &Allocation{Caller: caller, Subordinate: subordinate, Labels: label.Of("user", user)}))
	}
	owners := key("alice@h1", false, "alice")
	for _, id := range []string{"100001", "100002", "uid:100003"} {
		if key(id+"@h1", true, "alice") != owners {
			t.Errorf("%s waits in a class of its own", id)
		}
		if key(id+"@h1", true, "bob") == owners || key(id+"@h2", true, "alice") == owners {
			t.Errorf("%s waits in the class of another user", id)
		}
	}
}

func ruleOf(t *testing.T, text string) label.Rule {
	t.Helper()
	rule, err := label.ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	return rule
}
