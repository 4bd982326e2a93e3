package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// quotaService serves bursar.v1.QuotaService.
type quotaService struct {
	loop   *commit.Loop
	labels *label.Preprocessor
}

// Put adds a rule, or replaces the one with its selector.
func (s *quotaService) Put(ctx context.Context, req *bursarv1.PutRequest) (*bursarv1.PutResponse, error) {
	q, err := wire.QuotaFrom("quota.", req.GetQuota())
	if err != nil {
		return nil, err
	}
	q.Source = ledger.SourceAPI
	if err := checkRule(&q, "quota.", s.labels, req.GetForce()); err != nil {
		return nil, err
	}
	set := ledger.QuotaSet{Quotas: []ledger.Quota{q}, Force: req.GetForce()}
	undeclared, err := commit.Decide(ctx, s.loop, func(l *ledger.Ledger, now ledger.Instant) ([]string, error) {
		if err := checkETag(l, q.Selector, req.IfEtag); err != nil {
			return nil, err
		}
		_, err := l.ApplyQuotas(now, set)
		return l.Dimensions().Undeclared(&q), err
	})
	if err != nil {
		return nil, inQuota(err, "quota.", q)
	}
	return &bursarv1.PutResponse{Quota: (&listedQuota{Quota: q, undeclared: undeclared}).message(), Warnings: ruleDoubts(&q, s.labels)}, nil
}

// changedQuotaError refuses a Put that is based on an earlier version of the rule.
type changedQuotaError struct {
	selector  label.Selector
	got, have string
}

func (e *changedQuotaError) Error() string {
	have := strconv.Quote(e.have)
	if e.have == "" {
		have = "none: there is no such rule"
	}
	return fmt.Sprintf("quota %s has changed: its etag was %q and is %s: want a change of the rule as it is now", e.selector.Text(), e.got, have)
}

// checkETag checks that the rule with a selector still has the caller's etag, if the caller sent
// one.
func checkETag(l *ledger.Ledger, selector label.Selector, want *string) error {
	if want == nil {
		return nil
	}
	if have := findQuota(l, selector).GetEtag(); have != *want {
		return &changedQuotaError{selector, *want, have}
	}
	return nil
}

// findQuota finds the rule with a selector, in force or hidden; nil if there is none.
func findQuota(l *ledger.Ledger, selector label.Selector) *bursarv1.Quota {
	rules := l.Quotas()
	if i := slices.IndexFunc(rules, func(q ledger.Quota) bool { return q.Selector.Equal(selector) }); i >= 0 {
		return (&listedQuota{Quota: rules[i], undeclared: l.Dimensions().Undeclared(&rules[i])}).message()
	}
	return withETag(hiddenQuota(l, selector))
}

// withETag gives a rule its etag: a hash of its content, its source, and whether it is in force.
// nil stays nil.
func withETag(q *bursarv1.Quota) *bursarv1.Quota {
	if q == nil {
		return nil
	}
	said := &bursarv1.Quota{
		Selector: q.GetSelector(), Limit: q.GetLimit(), Guaranteed: q.GetGuaranteed(), Weight: q.GetWeight(), Normalization: q.GetNormalization(),
		Source: q.GetSource(), Hidden: q.GetHidden(),
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(said)
	if err != nil { // our own messages always marshal
		return q
	}
	hash := sha256.Sum256(text)
	q.Etag = hex.EncodeToString(hash[:8])
	return q
}

// Apply puts a set of rules, all or none.
func (s *quotaService) Apply(ctx context.Context, req *bursarv1.ApplyRequest) (*bursarv1.ApplyResponse, error) {
	quotas, err := wire.QuotasFrom(req.GetQuotas())
	if err != nil {
		return nil, err
	}
	var warnings []string
	for i := range quotas {
		if err := checkRule(&quotas[i], fmt.Sprintf("quotas[%d].", i), s.labels, req.GetForce()); err != nil {
			return nil, err
		}
		if len(warnings) < mostRuleDoubts {
			warnings = append(warnings, ruleDoubts(&quotas[i], s.labels)...)
		}
	}
	set := ledger.QuotaSet{Source: req.GetSource(), Quotas: quotas, Prune: req.GetPrune(), DryRun: req.GetDryRun(), Force: req.GetForce()}
	undeclared := make(map[string][]string) // dimensions, by the rule's selector
	changes, err := commit.Decide(ctx, s.loop, func(l *ledger.Ledger, now ledger.Instant) (ledger.QuotaChanges, error) {
		changes, err := l.ApplyQuotas(now, set)
		known := l.Dimensions()
		for _, list := range [][]ledger.Quota{changes.Added, changes.Changed} {
			for i := range list {
				if names := known.Undeclared(&list[i]); len(names) > 0 {
					undeclared[list[i].Selector.String()] = names
				}
			}
		}
		return changes, err
	})
	if err != nil {
		return nil, inQuotas(err, quotas)
	}
	res := &bursarv1.ApplyResponse{Unchanged: int32(changes.Unchanged), Warnings: warnings} //nolint:gosec // the contract bounds the set
	left := wire.PageBytes
	res.Added, res.MoreAdded, left = someQuotas(changes.Added, undeclared, left)
	res.Changed, res.MoreChanged, left = someQuotas(changes.Changed, undeclared, left)
	res.Deleted, res.MoreDeleted, _ = someQuotas(changes.Deleted, nil, left)
	return res, nil
}

// someQuotas converts rules to messages until an answer's room, in bytes, is used up. It returns
// the number of the other rules and the unused room. undeclared are the undeclared dimensions of
// rules, by selector.
func someQuotas(list []ledger.Quota, undeclared map[string][]string, room int) (messages []*bursarv1.Quota, more int32, left int) {
	for i := range list {
		m := wire.QuotaMessage(&list[i])
		m.UndeclaredDimensions = undeclared[list[i].Selector.String()]
		if room -= proto.Size(m) + 5; room < 0 { // with its tag and its length
			return messages, int32(len(list) - i), 0 //nolint:gosec // there are not that many rules
		}
		messages = append(messages, m)
	}
	return messages, 0, room
}

// inQuotas finds the rule of a set that an error of the ledger is about, and adds its place to the
// error.
func inQuotas(err error, quotas []ledger.Quota) error {
	// of two rules in conflict, the later one
	for i, q := range slices.Backward(quotas) {
		if placed := inQuota(err, fmt.Sprintf("quotas[%d].", i), q); placed != err { //nolint:errorlint // the same one
			return placed
		}
	}
	return err
}

// inQuota adds the path of a rule to the ledger's error, if the error is about this rule.
func inQuota(err error, path string, q ledger.Quota) error {
	e, ok := errors.AsType[*ledger.FieldError](err)
	if !ok {
		return err
	}
	text := q.Selector.Text()
	if e.Field == "selector" && e.Value == text {
		return wire.FieldError(path+"selector", text, e.Want)
	}
	if field, found := strings.CutPrefix(e.Field, text+": "); found {
		return wire.FieldError(path+field, e.Value, e.Want)
	}
	return err
}

// Delete removes a rule.
func (s *quotaService) Delete(ctx context.Context, req *bursarv1.DeleteRequest) (*bursarv1.DeleteResponse, error) {
	selector, err := wire.SelectorFrom("selector", req.GetSelector())
	if err != nil {
		return nil, err
	}
	_, err = commit.Decide(ctx, s.loop, func(l *ledger.Ledger, now ledger.Instant) (struct{}, error) {
		return struct{}{}, l.DeleteQuota(now, selector)
	})
	return &bursarv1.DeleteResponse{}, err
}

// ruleAccounts bounds the accounts that Get returns with a rule. List returns all of them.
const ruleAccounts = 1000

// Get reads one rule with its accounts.
func (s *quotaService) Get(ctx context.Context, req *bursarv1.QuotaServiceGetRequest) (*bursarv1.QuotaServiceGetResponse, error) {
	selector, err := wire.SelectorFrom("selector", req.GetSelector())
	if err != nil {
		return nil, err
	}
	var quota *bursarv1.Quota
	var accounts []ledger.AccountInfo
	_, err = commit.Decide(ctx, s.loop.Reader(req.GetAllowStale()), func(l *ledger.Ledger, _ ledger.Instant) (struct{}, error) {
		rules := l.Quotas()
		if quota = findQuota(l, selector); quota == nil {
			return struct{}{}, &ledger.NotFoundError{What: "quota", ID: selector.String()}
		}
		if quota.GetHidden() != "" {
			return struct{}{}, nil
		}
		l.QuotaAccounts("", func(_ string, a ledger.AccountInfo) bool {
			if rulesOver(rules, a.Name.Labels, selector) {
				accounts = append(accounts, a)
			}
			return len(accounts) < ruleAccounts
		})
		return struct{}{}, nil
	})
	if err != nil {
		return nil, err
	}
	return &bursarv1.QuotaServiceGetResponse{Quota: quota, Accounts: wire.AccountMessages(accounts)}, nil
}

// hiddenQuota finds a hidden rule; nil if there is none.
func hiddenQuota(l *ledger.Ledger, selector label.Selector) *bursarv1.Quota {
	for _, h := range l.HiddenQuotas() {
		if h.Selector.Equal(selector) {
			return (&listedQuota{Quota: h.Quota, hidden: h.Why()}).message()
		}
	}
	return nil
}

// listedQuota is a rule as List shows it: in force, or hidden for a reason.
type listedQuota struct {
	ledger.Quota

	hidden     string
	undeclared []string // dimensions; of a rule in force
}

func (q *listedQuota) message() *bursarv1.Quota {
	m := wire.QuotaMessage(&q.Quota)
	m.Hidden, m.UndeclaredDimensions = q.hidden, q.undeclared
	return withETag(m)
}

// allQuotas returns the rules in force, by selector, each followed by the rule that it hides, and
// the rules that are hidden for other reasons.
func allQuotas(l *ledger.Ledger) []listedQuota {
	rules, hidden := l.Quotas(), l.HiddenQuotas()
	list := make([]listedQuota, 0, len(rules)+len(hidden))
	known := l.Dimensions()
	hide := func() {
		list, hidden = append(list, listedQuota{Quota: hidden[0].Quota, hidden: hidden[0].Why()}), hidden[1:]
	}
	for i := range rules {
		for len(hidden) > 0 && hidden[0].Selector.String() < rules[i].Selector.String() {
			hide()
		}
		list = append(list, listedQuota{Quota: rules[i], undeclared: known.Undeclared(&rules[i])})
	}
	for len(hidden) > 0 {
		hide()
	}
	return list
}

// rulePage returns the rules after a selector that fit a page. Rules with the same selector, a rule
// and those that it hides, stay on one page.
func rulePage(all []listedQuota, after string) (list []*bursarv1.Quota, size int, place string) {
	for len(all) > 0 && all[0].Selector.String() <= after {
		all = all[1:]
	}
	list, size = wire.FillPage(all, wire.PageBytes, (*listedQuota).message)
	n := len(list)
	for n > 1 && n < len(all) && all[n-1].Selector.Equal(all[n].Selector) {
		n--
	}
	if n == len(all) {
		return list, size, ""
	}
	return list[:n], size, all[n-1].Selector.String()
}

// rulesOver reports whether the rule with the selector governs the account with these labels: the
// account is in its scope, and no more specific rule governs it.
func rulesOver(rules []ledger.Quota, labels label.Set, selector label.Selector) bool {
	if !hasScope(selector, labels) || !selector.Matches(labels) {
		return false
	}
	return !slices.ContainsFunc(rules, func(q ledger.Quota) bool {
		return q.Selector.Exact() > selector.Exact() && hasScope(q.Selector, labels) && q.Selector.Matches(labels)
	})
}

// hasScope reports whether the labels have exactly the selector's keys; both are sorted.
func hasScope(selector label.Selector, labels label.Set) bool {
	return slices.EqualFunc(selector.Labels(), labels, func(a, b label.Label) bool { return a.Key == b.Key })
}

// List reads rules and their accounts page by page, the rules first.
func (s *quotaService) List(ctx context.Context, req *bursarv1.QuotaServiceListRequest) (*bursarv1.QuotaServiceListResponse, error) {
	filter, err := convert.LabelsFromProto(req.GetLabels())
	if err != nil {
		return nil, err
	}
	f := wire.NewFingerprint()
	f.Labels(filter)
	query := uint64(f)
	f.Text("rules")
	rules := uint64(f)

	res := &bursarv1.QuotaServiceListResponse{}
	from, size := s.loop.Reader(req.GetAllowStale()), 0
	var after string
	if selector, err := wire.PagePlace(rules, req.GetPageToken()); err == nil {
		all, err := commit.Decide(ctx, from, func(l *ledger.Ledger, _ ledger.Instant) ([]listedQuota, error) {
			res.Revision = l.Revision()
			return allQuotas(l), nil
		})
		if err != nil {
			return nil, err
		}
		res.Quotas, size, selector = rulePage(all, selector)
		if selector != "" {
			res.NextPageToken = wire.PageToken(rules, selector)
			return res, nil
		}
	} else if after, err = wire.PagePlace(query, req.GetPageToken()); err != nil {
		return nil, err
	}
	keep := func(a *commit.QuotaAccount) bool { return a.Name.Labels.MatchesFilter(filter) }
	page, err := commit.Scan(ctx, from, after, wire.PageSize(req.GetPageSize()), commit.QuotaAccountsWhere(keep))
	if err != nil {
		return nil, err
	}
	res.Revision = page.Revision
	res.Accounts, _ = wire.FillPage(page.Found, wire.PageBytes-size, func(a *commit.QuotaAccount) *bursarv1.Account { return wire.AccountMessage(&a.AccountInfo) })
	if n := len(res.Accounts); n < len(page.Found) {
		page.Place, page.More = page.Found[n-1].Key, true
	}
	if page.More {
		res.NextPageToken = wire.PageToken(query, page.Place)
	}
	return res, nil
}
