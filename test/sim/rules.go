package sim

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Two rules that match one request and are equally specific. If a file has one of them, the other
// is hidden if it is stored.
const tieByCreator, tieByUser = "creator=IDE,user=*", "creator=*,user=u1"

// rule makes a rule with a limit of memory.
func rule(source, selector string, memory int64) ledger.Quota {
	s, err := label.ParseSelector(selector)
	if err != nil {
		panic(err)
	}
	return ledger.Quota{Selector: s, Limit: resource.Vector{}.WithMemory(memory), Source: source}
}

// drawFiles makes up the rules of two files: for all users together, each of them, and one in
// particular. One has the limit of each team, which always holds.
func (w *World) drawFiles() map[string][]ledger.Quota {
	files := map[string][]ledger.Quota{"file:rules": {rule("file:rules", "team=*", w.teamLimit)}, "file:more": nil}
	add := func(one int, selector string, least, more int64) {
		if !w.chance(one) {
			return
		}
		source := []string{"file:rules", "file:rules", "file:more"}[w.rng.IntN(3)]
		files[source] = append(files[source], w.limitAbroad(rule(source, selector, (least+w.rng.Int64N(more))*gib)))
	}
	add(1, "user=*", 4, 20)
	add(2, "user=u1", 2, 8)
	add(2, "creator=*,user=*", 2, 8)
	add(3, "creator=IDE", 4, 32)
	add(6, []string{tieByCreator, tieByUser}[w.rng.IntN(2)], 2, 8)
	return files
}

// changeRules puts other quotas into the files; each coordinator reads them at its next look.
func (w *World) changeRules() {
	w.files = w.drawFiles()
	w.tellf("operator: %d and %d other rules in files", len(w.files["file:rules"]), len(w.files["file:more"]))
	for _, c := range w.coords {
		if c.up() {
			c.then(w.between(0, 2*time.Second), c.readRules)
		}
	}
}

// readRules takes over the rules of the files as they are now. No stored rule may prevent that.
func (c *coord) readRules() {
	c.advance()
	if err := c.core.SetQuotaFiles(c.instant(), c.w.files); err != nil {
		c.w.failf(3, "rules: %v", err)
	}
	c.files = c.w.files
	c.pumpSoon()
}

// storeRulesBefore stores rules before anybody has led: files may have got the same selectors
// since. The limit of the teams is twice the file's, which is the one in force.
func (w *World) storeRulesBefore() {
	if w.chance(2) {
		return
	}
	quotas := []ledger.Quota{rule(ledger.SourceAPI, "team=*", 2*w.teamLimit), rule(ledger.SourceAPI, "user=*", 30*gib)}
	if w.chance(2) {
		quotas = append(quotas, rule(ledger.SourceAPI, []string{tieByCreator, tieByUser}[w.rng.IntN(2)], 10*gib))
	}
	s := w.store.place.Open()
	meta, err := s.Lead(context.Background(), 0)
	if err == nil {
		err = s.Commit(context.Background(), store.Batch{Epoch: meta.Epoch, Changes: ledger.Changes{Revision: uint64(len(quotas)), Quotas: quotas}})
	}
	if err != nil {
		panic(err)
	}
	known := &w.store.known
	known.epoch, known.sequence = meta.Epoch, uint64(len(quotas))
	known.putRules(quotas, nil)
}

// storeRule makes an operator add or delete a rule. That is refused if the rule could not come
// into force.
func (w *World) storeRule() {
	selectors := []string{"team=*", "user=*", "user=u1", "user=u2", "creator=*,user=*", "creator=IDE", tieByCreator, tieByUser}
	q := w.limitAbroad(rule(ledger.SourceAPI, selectors[w.rng.IntN(len(selectors))], (2+w.rng.Int64N(20))*gib))
	text := q.Selector.String()
	if w.chance(3) {
		w.operate("delete rule", text, func(l *ledger.Ledger, now ledger.Instant) {
			w.checkCommand(l.DeleteQuota(now, q.Selector))
			if limit, there := storedRules(l)[text]; there {
				w.failf(4, "the rule for %s is deleted, and stored with %s", text, limit)
			}
		})
		return
	}
	w.operate("put rule", text, func(l *ledger.Ledger, now ledger.Instant) {
		err := l.PutQuota(now, q)
		w.checkCommand(err)
		if limit := storedRules(l)[text]; err == nil && limit != limits(&q) {
			w.failf(4, "the rule for %s is put with %s, and stored with %s", text, limits(&q), limit)
		}
	})
}

// checkCommand holds that a rule is refused for what prevents it, and for nothing else.
func (w *World) checkCommand(err error) {
	_, wrong := errors.AsType[*ledger.FieldError](err)
	_, unknown := errors.AsType[*ledger.NotFoundError](err)
	_, fromFile := errors.AsType[*ledger.StateError](err)
	if err != nil && !wrong && !unknown && !fromFile {
		w.failf(2, "a rule: %v", err)
	}
}

// storedRules are the stored rules of a ledger, in force or not: limits by selector.
func storedRules(l *ledger.Ledger) map[string]string {
	rules := make(map[string]string)
	add := func(q *ledger.Quota) {
		if !strings.HasPrefix(q.Source, ledger.SourceFilePrefix) {
			rules[q.Selector.String()] = limits(q)
		}
	}
	for _, q := range l.Quotas() {
		add(&q)
	}
	for _, h := range l.HiddenQuotas() {
		add(&h.Quota)
	}
	return rules
}

// putRules takes in the rules of a batch.
func (r *storeRecord) putRules(put []ledger.Quota, removed []string) {
	for i := range put {
		r.rules[put[i].Selector.String()] = limits(&put[i])
	}
	for _, text := range removed {
		delete(r.rules, text)
	}
}

// rules are those of a ledger.
type rules struct {
	turn    uint64 // of the ledger; 0: never looked at
	inForce []ledger.Quota
	// stored are the rules in force or not, as limits by selector. The map never changes.
	stored map[string]string
}

// beginRules holds that a leadership begins with the rules that are stored.
func (c *coord) beginRules() {
	c.rules = rules{}
	c.checkRules()
	if len(c.core.Ledger().HiddenQuotas()) > 0 {
		c.w.tally.Hidden++
	}
}

// checkRules holds that the rules of the files are in force as they were last read, and every
// stored rule that no file's rule hides.
func (c *coord) checkRules() {
	l := c.core.Ledger()
	if c.rules.turn == l.RulesGeneration() {
		return
	}
	c.rules = rules{turn: l.RulesGeneration(), inForce: l.Quotas(), stored: storedRules(l)}
	want := make(map[string]string)
	for _, quotas := range c.files {
		for i := range quotas {
			want[quotas[i].Selector.String()] = limits(&quotas[i])
		}
	}
	ofFiles := maps.Clone(want)
	for text, limit := range c.rules.stored {
		_, taken := ofFiles[text]
		if _, byUser := ofFiles[tieByUser]; text == tieByCreator && byUser {
			taken = true
		}
		if _, byCreator := ofFiles[tieByCreator]; text == tieByUser && byCreator {
			taken = true
		}
		if !taken {
			want[text] = limit
		}
	}
	got := make(map[string]string)
	for i := range c.rules.inForce {
		q := &c.rules.inForce[i]
		got[q.Selector.String()] = limits(q)
	}
	if !maps.Equal(got, want) {
		c.w.failf(3, "%s: in force are %v, want %v", c.name, got, want)
	}
}

// checkLimit holds that the account of a quota has the limit of the most specific rule for it.
func (c *coord) checkLimit(account ledger.AccountInfo) {
	best := c.rules.of(account.Name.Labels)[label.NewScope(keysOf(account.Name.Labels)...).Key()]
	if best == nil || !limitOf(best, account.Name).EqualTo(account.Limit) {
		c.w.failf(3, "%s: account %s has the limit %s, its rule is %v", c.name, account.Name, account.Limit, best)
	}
}

// of are the rules for labels: for each scope the most specific one that matches.
func (r *rules) of(labels label.Set) map[string]*ledger.Quota {
	best := make(map[string]*ledger.Quota)
	for i := range r.inForce {
		q := &r.inForce[i]
		key := q.Selector.Scope().Key()
		if q.Selector.Matches(labels) && (best[key] == nil || q.Selector.Exact() > best[key].Selector.Exact()) {
			best[key] = q
		}
	}
	return best
}

// scopes is in how many accounts of quotas something with these labels must count.
func (r *rules) scopes(labels label.Set) int { return len(r.of(labels)) }

func keysOf(labels label.Set) (keys []string) {
	for _, l := range labels {
		keys = append(keys, l.Key)
	}
	return slices.Clip(keys)
}
