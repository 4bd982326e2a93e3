package ledger_test

import (
	"errors"
	"math/big"
	"slices"
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// purse is one account as the design defines it, computed only from rules, hosts, reports and the
// list of live allocations. A dimension without a most is not limited.
type purse struct {
	name string
	most map[string]*big.Int // limit - protected - used by others
	cap  map[string]*big.Int // limit - protected
	has  func(a *ledger.Allocation) map[string]*big.Int
}

func whole(n int64) *big.Int { return big.NewInt(n) }

func quantities(v resource.Vector) map[string]*big.Int {
	all := make(map[string]*big.Int)
	for dimension, n := range v.All() {
		all[dimension] = whole(n)
	}
	return all
}

// without is a limit less what cannot be given, never below zero.
func without(limit, kept map[string]*big.Int) map[string]*big.Int {
	most := make(map[string]*big.Int)
	for dimension, n := range limit {
		most[dimension] = new(big.Int).Set(n)
		if k := kept[dimension]; k != nil {
			most[dimension].Sub(most[dimension], k)
		}
	}
	return most
}

// rulesFor finds by enumeration the rules that a request must pass: of each set of keys the
// matching one with most exact values.
func (b *brute) rulesFor(labels label.Set) map[string]ledger.Quota {
	if found, is := b.scopes[labels.String()]; is {
		return found
	}
	best := make(map[string]ledger.Quota)
	b.scopes[labels.String()] = best
	exact := make(map[string]int)
	for _, q := range b.rules {
		var keys, values []string
		n, matches := 0, true
		for _, pair := range q.Selector.Labels() {
			has := labels.Value(pair.Key)
			switch pair.Value {
			case "*":
			case has:
				n++
			default:
				matches = false
			}
			keys, values = append(keys, pair.Key), append(values, pair.Key+"="+has)
		}
		scope := strings.Join(keys, ",")
		if before, taken := exact[scope]; !matches || taken && before >= n {
			continue
		}
		exact[scope] = n
		q.Source = "quota " + strings.Join(values, ",") // the account's name stands there
		if len(values) == 0 {
			q.Source = "quota (all)"
		}
		best[scope] = q
	}
	return best
}

// purses are the accounts that an allocation charges apart from hosts, in no order.
func (b *brute) purses(a *ledger.Allocation) []purse {
	var list []purse
	for scope, q := range b.rulesFor(a.Labels) {
		most := quantities(q.Limit)
		list = append(list, purse{name: q.Source, most: most, cap: most, has: func(other *ledger.Allocation) map[string]*big.Int {
			if b.rulesFor(other.Labels)[scope].Source == q.Source {
				return quantities(other.Entitled.Vector)
			}
			return nil
		}})
	}
	for scope, q := range b.rulesFor(a.Labels) {
		for _, limit := range q.External {
			list = append(list, b.purseAbroad(scope, q.Source, limit))
		}
	}
	for at := range queuesOf(a) {
		path, r := at.Path, b.queues[at.Path]
		most := quantities(r.Limit)
		list = append(list, purse{
			name: "queue yarn:c1:" + path, most: without(most, quantities(r.Used)), cap: most,
			has: func(other *ledger.Allocation) map[string]*big.Int {
				sum := make(map[string]*big.Int)
				for _, p := range other.Entitled.External {
					if p.Path == path || strings.HasPrefix(p.Path, path+".") {
						addAll(sum, quantities(p.Vector))
					}
				}
				return sum
			},
		})
	}
	return list
}

// purseAbroad is the account of a rule for the parts in some queues. The one cluster is c1.
func (b *brute) purseAbroad(scope, quota string, limit resource.External) purse {
	most := quantities(limit.Vector)
	return purse{name: quota + " in " + limit.Address.String(), most: most, cap: most, has: func(other *ledger.Allocation) map[string]*big.Int {
		if b.rulesFor(other.Labels)[scope].Source != quota || limit.Cluster != "*" && limit.Cluster != "c1" {
			return nil
		}
		sum := make(map[string]*big.Int)
		for _, p := range other.Entitled.External {
			if limit.Path == "*" || strings.HasPrefix(p.Path+".", limit.Path+".") {
				addAll(sum, quantities(p.Vector))
			}
		}
		return sum
	}}
}

// addAll adds the second to the first.
func addAll(sum, more map[string]*big.Int) {
	for dimension, n := range more {
		if sum[dimension] == nil {
			sum[dimension] = whole(0)
		}
		sum[dimension].Add(sum[dimension], n)
	}
}

// purseOf is a host's account.
func (b *brute) purseOf(h *bruteHost) purse {
	most := without(quantities(h.capacity), quantities(h.protected))
	for _, countable := range []string{"gpu"} {
		if most[countable] == nil { // a host that does not list it has none
			most[countable] = whole(0)
		}
	}
	return purse{name: "host " + h.id, most: most, cap: most, has: func(a *ledger.Allocation) map[string]*big.Int {
		if a.HostID == h.id {
			return quantities(a.Entitled.Vector)
		}
		return nil
	}}
}

// taken adds up what all that holds something has of an account.
func (b *brute) taken(p purse, state func(ledger.State) bool) map[string]*big.Int {
	sum := make(map[string]*big.Int)
	for _, a := range b.live {
		if !state(a.State) {
			continue
		}
		addAll(sum, p.has(a))
	}
	return sum
}

// left is what the account still has of a dimension; nil if that is not limited.
func (b *brute) left(p purse, dimension string) *big.Int {
	most := p.most[dimension]
	if most == nil {
		return nil
	}
	left := new(big.Int).Set(most)
	if t := b.taken(p, ledger.State.Holds)[dimension]; t != nil {
		left.Sub(left, t)
	}
	return left
}

// lacks names the dimensions that the account has less of than is asked.
func (b *brute) lacks(p purse, asked map[string]*big.Int) []string {
	var short []string
	for dimension, n := range asked {
		if left := b.left(p, dimension); n.Sign() > 0 && left != nil && left.Cmp(n) < 0 {
			short = append(short, dimension)
		}
	}
	return short
}

// headroom is what the machine can still promise: in this world no engine has used any memory yet.
func (b *brute) headroom(h *bruteHost) *big.Int {
	left := whole(h.available)
	for _, a := range b.live {
		if a.State.Holds() && a.HostID == h.id {
			left.Sub(left, whole(a.Entitled.Memory()))
		}
	}
	return left
}

// suits reports whether an allocation may be on a host by its wishes.
func (h *bruteHost) suits(w *ledger.Wishes) bool {
	if w == nil {
		return true
	}
	for _, l := range w.Required {
		if h.labels.Value(l.Key) != l.Value {
			return false
		}
	}
	return (w.Host == "" || w.Host == h.id) && !slices.Contains(w.Avoid, h.id)
}

// takes reports whether a host has room for a request, by health, by its account and by
// measurement.
func (b *brute) takes(h *bruteHost, asked map[string]*big.Int) bool {
	memory := asked[resource.Memory]
	return !h.cordoned && len(b.lacks(b.purseOf(h), asked)) == 0 && (memory == nil || memory.Sign() == 0 || b.headroom(h).Cmp(memory) >= 0)
}

// fits reports whether nothing blocks a request.
func (b *brute) fits(a *ledger.Allocation) bool {
	for _, p := range b.purses(a) {
		if len(b.lacks(p, p.has(a))) > 0 {
			return false
		}
	}
	for _, h := range b.hosts {
		if h.suits(a.Wishes) && b.takes(h, quantities(a.Entitled.Vector)) {
			return true
		}
	}
	return false
}

// mayBecome reports whether every account has what an allocation, which holds something, would
// have more of it.
func (b *brute) mayBecome(a, next *ledger.Allocation) bool {
	grows := false
	more := func(p purse) map[string]*big.Int {
		had, sum := p.has(a), make(map[string]*big.Int)
		for dimension, n := range p.has(next) {
			if before := had[dimension]; before != nil {
				n = new(big.Int).Sub(n, before)
			}
			if n.Sign() > 0 {
				sum[dimension], grows = n, true
			}
		}
		return sum
	}
	for _, p := range b.purses(a) {
		if len(b.lacks(p, more(p))) > 0 {
			return false
		}
	}
	h := b.hosts[a.HostID]
	on := more(b.purseOf(h))
	return !grows || b.takes(h, on)
}

// judgeGrant checks an allocation that holds more than before, and is in the list of live ones:
// invariants 1 and 9. before is nil if it held nothing.
func (b *brute) judgeGrant(a, before *ledger.Allocation) {
	h := b.hosts[a.HostID]
	if h == nil {
		b.t.Fatalf("seed %d: %s holds on host %q, which is not there", b.seed, a.ID, a.HostID)
	}
	if before == nil && !h.suits(a.Wishes) {
		b.t.Fatalf("seed %d: %s, which wishes %+v, is granted on %s, which has %s", b.seed, a.ID, *a.Wishes, h.id, h.labels)
	}
	for _, p := range append(b.purses(a), b.purseOf(h)) {
		for dimension, n := range p.has(a) {
			if before != nil {
				if had := p.has(before)[dimension]; had != nil && n.Cmp(had) <= 0 {
					continue
				}
			}
			if n.Sign() == 0 {
				continue
			}
			if left := b.left(p, dimension); left != nil && left.Sign() < 0 {
				b.t.Fatalf("seed %d: invariant 1: with the grant of %s (%s), %s is over its %s by %s", b.seed, a.ID, a.Entitled, p.name, dimension, left)
			}
			if p.name != "host "+h.id {
				continue
			}
			if h.cordoned {
				b.t.Fatalf("seed %d: %s is granted %s on %s, which is cordoned", b.seed, a.ID, dimension, h.id)
			}
			if dimension == resource.Memory && b.headroom(h).Sign() < 0 {
				b.t.Fatalf("seed %d: invariant 9: with the grant of %s (%s) the headroom of %s is %s", b.seed, a.ID, a.Entitled, h.id, b.headroom(h))
			}
		}
	}
}

// judgeRefusal checks a refusal: something must be short, and what it says of an account must be
// true.
func (b *brute) judgeRefusal(a *ledger.Allocation, err error) {
	refusal, is := errors.AsType[*ledger.InsufficientError](err)
	if !is {
		b.t.Fatalf("seed %d: %s, which wishes %+v: %v", b.seed, a.Entitled, a.Wishes, err)
	}
	held := slices.ContainsFunc(refusal.Shortfalls, func(s ledger.Shortfall) bool { return s.Note == ledger.NoteHeld })
	if !held && !b.anythingHeld() && b.fits(a) {
		b.t.Fatalf("seed %d: refused although nothing is short: %s: %v", b.seed, a.Entitled, err)
	}
	all := b.purses(a)
	for _, h := range b.hosts {
		all = append(all, b.purseOf(h))
	}
	if (refusal.Reason == ledger.ReasonNever) != refusal.Never {
		b.t.Fatalf("seed %d: refused as %q, and its verdict is never: %t", b.seed, refusal.Reason, refusal.Never)
	}
	impossible := false
	for _, s := range refusal.Shortfalls {
		i := slices.IndexFunc(all, func(p purse) bool { return p.name == s.Account.String() })
		if i < 0 {
			b.t.Fatalf("seed %d: the refusal names %s, which the request does not touch: %v", b.seed, s.Account, err)
		}
		most := all[i].cap[s.Dimension]
		named := s.Account.Kind != ledger.HostAccount || a.Wishes != nil && s.Account.Labels.Value("host") == a.Wishes.Host
		impossible = impossible || named && most != nil && most.Cmp(whole(s.Requested)) < 0
		if (s.Note == ledger.NoteNever) && !refusal.Never {
			b.t.Fatalf("seed %d: the verdict is not now, and says never: %v", b.seed, err)
		}
		if left := b.left(all[i], s.Dimension); s.Note == "" && (left == nil || left.Cmp(whole(s.Requested)) >= 0 || bigMax(left, whole(0)).Cmp(whole(s.Available)) != 0) {
			b.t.Fatalf("seed %d: %s has %v left of %s; the refusal says %s", b.seed, s.Account, left, s.Dimension, s)
		}
	}
	if refusal.Never && !impossible {
		b.t.Fatalf("seed %d: refused for ever although a host may come that it fits on: %s: %v", b.seed, a.Entitled, err)
	}
}

func bigMax(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// couldFitSomewhere reports whether a host could take the request if nothing ran.
func (b *brute) couldFitSomewhere(a *ledger.Allocation) bool {
	for _, h := range b.hosts {
		fits := h.suits(a.Wishes)
		for dimension, n := range quantities(a.Entitled.Vector) {
			if most := b.purseOf(h).cap[dimension]; most != nil && n.Cmp(most) > 0 {
				fits = false
			}
		}
		if fits {
			return true
		}
	}
	return false
}

// anythingHeld reports whether some account is held for one request: then the policy decides the
// order of the others.
func (b *brute) anythingHeld() bool {
	held := false
	look := func(a ledger.AccountInfo) { held = held || a.HeldFor != 0 }
	b.ledger.QuotaAccounts("", func(_ string, a ledger.AccountInfo) bool { look(a); return true })
	b.ledger.Hosts("", func(h ledger.HostInfo) bool { look(h.Account); return true })
	b.ledger.Queues(resource.Address{}, func(q ledger.QueueInfo) bool { look(q.Account); return true })
	return held
}

// judgeBooks compares every account's figures with what its allocations add up to: invariant 2.
func (b *brute) judgeBooks() {
	all := make(map[string]purse)
	for _, a := range b.live {
		for _, p := range b.purses(a) {
			all[p.name] = p
		}
	}
	for _, h := range b.hosts {
		all["host "+h.id] = b.purseOf(h)
	}
	look := func(a ledger.AccountInfo) {
		p, touched := all[a.Name.String()]
		if !touched {
			p.has = func(*ledger.Allocation) map[string]*big.Int { return nil }
		}
		delete(all, a.Name.String())
		for _, dimension := range []string{resource.Memory, resource.CPU, resource.Instances, "gpu"} {
			for _, side := range []struct {
				says  resource.Vector
				state ledger.State
			}{{a.Used, ledger.Active}, {a.Reserved, ledger.Reserved}} {
				want := b.taken(p, func(s ledger.State) bool { return s == side.state })[dimension]
				if want == nil {
					want = whole(0)
				}
				if says, _ := side.says.Get(dimension); want.Cmp(whole(says)) != 0 {
					b.t.Fatalf("seed %d: invariant 2: %s has %d of %s %s; its allocations have %s", b.seed, a.Name, says, dimension, side.state, want)
				}
			}
		}
	}
	b.ledger.QuotaAccounts("", func(_ string, a ledger.AccountInfo) bool { look(a); return true })
	b.ledger.Hosts("", func(h ledger.HostInfo) bool { look(h.Account); return true })
	b.ledger.Queues(resource.Address{}, func(q ledger.QueueInfo) bool { look(q.Account); return true })
	for name, p := range all {
		if len(b.taken(p, ledger.State.Holds)) > 0 {
			b.t.Fatalf("seed %d: invariant 2: there is no account %s, in which allocations count", b.seed, name)
		}
	}
}
