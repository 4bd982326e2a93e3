package ledger

import (
	"slices"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// share is what a user, or an account whose rule sets a weight or a guarantee, has of the whole
// fleet. Among requests of one priority the one with the smallest share goes first (weighted
// dominant resource fairness).
type share struct {
	key        string
	weight     int64
	guaranteed resource.Vector

	// memory, cpu, instances and custom are the sum of what its reserved and active allocations are
	// entitled to.
	memory, cpu, instances int64
	custom                 counts
	sets                   int // account sets that count in it

	// value is the order: the largest of its fractions of the fleet, divided by the weight. Shares
	// within their guarantee come before all others.
	value   float64
	groups  []*group // the groups in which requests of it wait
	starved starvation
}

// aboveGuarantee is added to the value of a share that has more than its guarantee, or has no
// guarantee. By the accounts a fraction of the fleet is at most 1, and a weight is at least 1.
const aboveGuarantee = 1 << 20

// fleet is what all hosts could give. Dominant shares are fractions of it.
type fleet struct {
	memory, cpu int64
	custom      counts
}

// add adds what a host could give, or takes it away with sign -1.
func (f *fleet) add(a *account, sign int64) {
	f.memory += sign * known(a.most[0])
	f.cpu += sign * known(a.most[1])
	for _, q := range a.limit.Custom() {
		f.custom.add(q.Name, sign*a.mostOf(q.Name))
	}
}

// counts are sums of custom countables, by name. None is zero.
type counts map[string]int64

func (c *counts) add(name string, n int64) {
	if *c == nil {
		*c = make(counts)
	}
	if (*c)[name] += n; (*c)[name] == 0 {
		delete(*c, name)
	}
}

func (s *share) revalue(f fleet) {
	s.value = max(fraction(s.memory, f.memory), fraction(s.cpu, f.cpu))
	for name, has := range s.custom {
		s.value = max(s.value, fraction(has, f.custom[name]))
	}
	s.value /= float64(s.weight)
	if !s.withinGuarantee() {
		s.value += aboveGuarantee
	}
}

// fraction is zero if nothing is known of the whole.
func fraction(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func (s *share) withinGuarantee() bool {
	if s.guaranteed.IsUnset() {
		return false
	}
	for i, dimension := range [...]string{resource.Memory, resource.CPU, resource.Instances} {
		if most, listed := s.guaranteed.Get(dimension); listed && [...]int64{s.memory, s.cpu, s.instances}[i] >= most {
			return false
		}
	}
	for _, most := range s.guaranteed.Custom() {
		if s.custom[most.Name] >= most.Value {
			return false
		}
	}
	return true
}

// count adds to what the share has, or subtracts with sign -1, and restores the order of its
// queues.
func (s *share) count(v resource.Vector, sign int64, f fleet) {
	s.memory += sign * v.Memory()
	s.cpu += sign * v.CPU()
	s.instances += sign * v.Instances()
	for _, q := range v.Custom() {
		if q.Value != 0 {
			s.custom.add(q.Name, sign*q.Value)
		}
	}
	s.revalue(f)
	for _, g := range s.groups {
		g.queue.groups.fix(g.index)
	}
}

// drop forgets a group in which no request waits any more.
func (s *share) drop(g *group) {
	s.groups = slices.DeleteFunc(s.groups, func(other *group) bool { return other == g })
}

// shareOf finds or makes the share of a request: that of its first quota account whose rule sets a
// weight or a guarantee, else that of its user. The rule for everything is not asked: whatever its
// weight is, all requests would have the same share, and no user would be given way to another.
func (l *Ledger) shareOf(f *accountSet, labels label.Set) *share {
	buf := make([]byte, 0, 64)
	var of *rule
	for _, a := range f.accounts {
		if len(a.rule.Selector.Labels()) > 0 && (a.rule.Weight > 0 || !a.rule.Guaranteed.IsUnset()) {
			of = a.rule
			buf = append(append(buf, 'q'), a.key...)
			break
		}
	}
	if of == nil {
		buf = append(append(buf, 'u'), labels.Value(userKey)...)
	}
	s := l.shares[string(buf)]
	if s == nil {
		s = &share{key: string(buf), weight: 1}
		if of != nil {
			s.weight, s.guaranteed = max(1, int64(of.Weight)), of.Guaranteed
		}
		l.shares[s.key] = s
	}
	s.sets++
	return s
}

func (l *Ledger) dropShare(s *share) {
	s.sets--
	if s.sets == 0 {
		delete(l.shares, s.key)
	}
}

// revalueAll recomputes all shares after a change of the fleet.
func (l *Ledger) revalueAll() {
	queues := make(map[*queue]bool)
	for _, s := range l.shares {
		s.revalue(l.fleet)
		for _, g := range s.groups {
			queues[g.queue] = true
		}
	}
	for q := range queues {
		q.groups.rebuild()
	}
}
