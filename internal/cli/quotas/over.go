package quotas

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// overAccount is an account that has more of a dimension than a rule allows.
type overAccount struct {
	labels     map[string]string
	external   *resource.Address // the place of the limit of external parts; nil: of what is on hosts
	dimension  string
	has, limit int64
	ids        []string // of the allocations that have some of it
}

func (o *overAccount) text() string {
	const most = 5
	ids := strings.Join(o.ids[:min(len(o.ids), most)], ", ")
	if len(o.ids) > most {
		ids += ", …"
	}
	amount := func(n int64) string { return render.QuantityText(o.dimension, n) }
	account := &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_QUOTA, Labels: o.labels}
	if at := o.external; at != nil {
		account.External = convert.PlaceToProto(*at)
	}
	name := render.AccountText(account)
	return fmt.Sprintf("%s: %s: has %s of %s, in %s: %s",
		name, o.dimension, amount(o.has), amount(o.limit), render.Counted(len(o.ids), "allocation", "allocations"), ids)
}

// overJSON is an overAccount in JSON. Quantities are texts, as in the API's JSON.
type overJSON struct {
	Labels      map[string]string `json:"labels"`
	External    string            `json:"external,omitempty"` // such as "yarn:*:*"
	Dimension   string            `json:"dimension"`
	Has         string            `json:"has"`
	Limit       string            `json:"limit"`
	Allocations []string          `json:"allocations"`
}

func (o *overAccount) json() overJSON {
	line := overJSON{
		Labels: o.labels, Dimension: o.dimension, Has: strconv.FormatInt(o.has, 10), Limit: strconv.FormatInt(o.limit, 10), Allocations: o.ids,
	}
	if o.external != nil {
		line.External = o.external.String()
	}
	return line
}

// held has the allocations of one account, and the resources of each.
type held struct {
	labels map[string]string
	by     []*bursarv1.Allocation
	has    []resource.Resource
}

// accountsOver finds the accounts that have more than a rule allows, whether it is in force or not.
// It counts live allocations, as the rule may not have accounts yet. It leaves out accounts for
// which a rule with the same keys is more specific.
func accountsOver(ctx context.Context, cl *client.Client, rule *bursarv1.Quota) ([]overAccount, error) {
	limit, external, err := convert.LimitFromProto(render.OrEmpty(rule.GetLimit()))
	if err != nil || limit.IsUnset() && len(external) == 0 {
		return nil, err
	}
	closer, err := closerRules(ctx, cl, rule.GetSelector())
	if err != nil {
		return nil, err
	}
	exact := make(map[string]string)
	for key, value := range rule.GetSelector() {
		if value != label.Any && value != "" { // both match a label that is not there, which no filter does
			exact[key] = value
		}
	}
	holding := lookup.Filter{Labels: exact, States: []string{"reserved", "active"}}
	list, _, err := holding.List(ctx, cl)
	if err != nil {
		return nil, err
	}
	accounts := make(map[string]*held)
	for _, a := range list.GetAllocations() {
		labels := scopeOf(a.GetLabels(), rule.GetSelector())
		if !matches(rule.GetSelector(), labels) || slices.ContainsFunc(closer, func(other map[string]string) bool { return matches(other, labels) }) {
			continue
		}
		name := render.LabelsText(labels)
		if accounts[name] == nil {
			accounts[name] = &held{labels: labels}
		}
		if err := accounts[name].add(a); err != nil {
			return nil, err
		}
	}
	var over []overAccount
	for _, h := range accounts {
		over = append(over, h.over(limit, nil)...)
		for i := range external {
			over = append(over, h.over(external[i].Vector, &external[i].Address)...)
		}
	}
	slices.SortFunc(over, func(a, b overAccount) int {
		return cmp.Or(strings.Compare(render.LabelsText(a.labels), render.LabelsText(b.labels)),
			orEmptyAddress(a.external).Compare(orEmptyAddress(b.external)), strings.Compare(a.dimension, b.dimension))
	})
	return over, nil
}

// closerRules are the selectors in force that have the same keys and more exact values.
func closerRules(ctx context.Context, cl *client.Client, selector map[string]string) ([]map[string]string, error) {
	var closer []map[string]string
	for page, err := range cl.ListQuotas(ctx, &bursarv1.QuotaServiceListRequest{PageSize: 1}) {
		if err != nil {
			return nil, err
		}
		for _, q := range page.GetQuotas() {
			if q.GetHidden() == "" && sameKeys(q.GetSelector(), selector) && exactValues(q.GetSelector()) > exactValues(selector) {
				closer = append(closer, q.GetSelector())
			}
		}
		if len(page.GetAccounts()) > 0 { // the rules come first
			break
		}
	}
	return closer, nil
}

func sameKeys(a, b map[string]string) bool {
	for key := range a {
		if _, found := b[key]; !found {
			return false
		}
	}
	return len(a) == len(b)
}

func exactValues(selector map[string]string) (n int) {
	for _, value := range selector {
		if value != label.Any {
			n++
		}
	}
	return n
}

// matches reports whether a selector is for an account with the same keys.
func matches(selector, labels map[string]string) bool {
	for key, value := range selector {
		if value != label.Any && value != labels[key] {
			return false
		}
	}
	return true
}

// orEmptyAddress is an address; the empty one comes before all others.
func orEmptyAddress(at *resource.Address) resource.Address {
	if at == nil {
		return resource.Address{}
	}
	return *at
}

func (h *held) add(a *bursarv1.Allocation) error {
	r, err := convert.ResourceFromProto(render.OrEmpty(render.EntitledOrRequested(a)))
	if err != nil {
		return fmt.Errorf("allocation %s: %w", a.GetId(), err)
	}
	h.by, h.has = append(h.by, a), append(h.has, r)
	return nil
}

// over lists the dimensions of which an account has more than the limit: on hosts, or in the queues
// of a place.
func (h *held) over(limit resource.Vector, place *resource.Address) (list []overAccount) {
	for dimension, most := range limit.All() {
		o := overAccount{labels: h.labels, external: place, dimension: dimension, limit: most}
		for i := range h.has {
			if n := quantityAt(&h.has[i], place, dimension); n > 0 {
				o.has += n
				o.ids = append(o.ids, h.by[i].GetId())
			}
		}
		if o.has > most {
			list = append(list, o)
		}
	}
	return list
}

// quantityAt is the quantity of a dimension in a resource: on its host, or in the queues of a
// place.
func quantityAt(r *resource.Resource, place *resource.Address, dimension string) (sum int64) {
	if place == nil {
		sum, _ = r.Get(dimension)
		return sum
	}
	for i := range r.External {
		if place.Covers(r.External[i].Address) {
			n, _ := r.External[i].Get(dimension)
			sum += n
		}
	}
	return sum
}
