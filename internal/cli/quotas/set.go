package quotas

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/render"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// quotaChange is what `bursar quota set` changes of a rule.
type quotaChange struct {
	selector          map[string]string
	limit, guaranteed resource.Resource
	weight            *int32 // nil: not named
	replace, dryRun   bool
	force             bool // even for a dimension that nothing has
}

// setQuota is a rule that was set, or would be.
type setQuota struct {
	before   *bursarv1.Quota // nil: there was none
	now      *bursarv1.Quota
	warnings []string
	over     []overAccount
}

// mostTries bounds how often a change is made again because somebody else was quicker.
const mostTries = 20

// put reads the rule, changes it, and puts it if nobody else has changed it meanwhile.
func (q *quotaChange) put(ctx context.Context, cl *client.Client) (setQuota, error) {
	var set setQuota
	for range mostTries {
		before, err := q.read(ctx, cl)
		if err != nil {
			return set, err
		}
		if !says(before, set.now) { // else the rule is ours: an answer was lost
			set.before = before
		}
		if set.now, err = q.of(before); err != nil {
			return set, err
		}
		now, warnings, err := q.send(ctx, cl, set.now, before.GetEtag())
		if connect.CodeOf(err) == connect.CodeAborted {
			continue
		}
		set.now, set.warnings = now, warnings
		return set, err
	}
	return set, fmt.Errorf("quota %s: others change it all the time: nothing was changed", render.SelectorText(q.selector))
}

// read returns the rule as it is, nil if there is none.
func (q *quotaChange) read(ctx context.Context, cl *client.Client) (*bursarv1.Quota, error) {
	res, err := cl.Quotas().Get(ctx, &bursarv1.QuotaServiceGetRequest{Selector: q.selector})
	if client.NotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	return res.GetQuota(), err
}

// send puts a rule, if it is as it was when it had the etag, or asks for the effect of that.
func (q *quotaChange) send(ctx context.Context, cl *client.Client, rule *bursarv1.Quota, etag string) (now *bursarv1.Quota, warnings []string, err error) {
	if q.dryRun {
		res, err := cl.Quotas().Apply(ctx, &bursarv1.ApplyRequest{Quotas: []*bursarv1.Quota{rule}, DryRun: true, Force: q.force})
		rule.Source = sourceAPI
		return rule, res.GetWarnings(), err
	}
	res, err := cl.Quotas().Put(ctx, &bursarv1.PutRequest{Quota: rule, IfEtag: &etag, Force: q.force})
	return res.GetQuota(), res.GetWarnings(), err
}

// sourceAPI is the source of rules that were set over the API.
const sourceAPI = "api"

// of returns the rule that the change makes of one, or of none.
func (q *quotaChange) of(before *bursarv1.Quota) (*bursarv1.Quota, error) {
	now := &bursarv1.Quota{Selector: q.selector}
	if before != nil && !q.replace {
		now = proto.CloneOf(before)
		now.Source, now.Hidden, now.Etag, now.UndeclaredDimensions = "", "", "", nil
	}
	var err error
	if now.Limit, err = with(now.GetLimit(), q.limit); err != nil {
		return nil, err
	}
	if !q.guaranteed.IsUnset() {
		if now.Guaranteed, err = with(now.GetGuaranteed(), q.guaranteed); err != nil {
			return nil, err
		}
	}
	if q.weight != nil {
		now.Weight = *q.weight
	}
	return now, nil
}

// with sets some dimensions of a limit or a guarantee, and of the external parts that it names,
// and leaves the others as they are.
func with(before *bursarv1.Resource, named resource.Resource) (*bursarv1.Resource, error) {
	v, parts, err := convert.LimitFromProto(render.OrEmpty(before))
	if err != nil {
		return nil, fmt.Errorf("the rule as it is: %w", err)
	}
	r := resource.NewResource(overlaid(v, named.Vector), parts...)
	for _, e := range named.External {
		was, _ := r.Part(e.Address)
		r = r.WithPart(e.Address, overlaid(was, e.Vector))
	}
	return convert.ResourceToProto(r), nil
}

// overlaid is a vector with the dimensions of another one set as there.
func overlaid(v, named resource.Vector) resource.Vector {
	for dimension, n := range named.All() {
		v = v.With(dimension, n)
	}
	return v
}

// says reports whether two rules say the same, wherever they come from. None says nothing.
func says(a, b *bursarv1.Quota) bool {
	if a == nil || b == nil {
		return false
	}
	return len(quotaDifference(a, b)) == 0
}

// quotaDifference lists the differences between two rules: "memory: 2GiB -> 4GiB".
func quotaDifference(before, now *bursarv1.Quota) (lines []string) {
	add := func(name, was, is string) {
		if was != is {
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", name, was, is))
		}
	}
	for _, part := range []struct {
		prefix, none string
		before, now  *bursarv1.Resource
	}{
		{"", "no limit", before.GetLimit(), now.GetLimit()},
		{"guaranteed ", "nothing", before.GetGuaranteed(), now.GetGuaranteed()},
	} {
		named := slices.Concat(render.SetDimensions(render.OrEmpty(part.before)), render.SetDimensions(render.OrEmpty(part.now)))
		for i, dimension := range named {
			if slices.Contains(named[:i], dimension) {
				continue
			}
			text := func(r *bursarv1.Resource) string {
				return cmp.Or(render.QuantityOf(render.OrEmpty(r), dimension), part.none)
			}
			add(part.prefix+dimension, text(part.before), text(part.now))
		}
		for _, at := range placesIn(part.before, part.now) {
			text := func(r *bursarv1.Resource) string { return cmp.Or(textAt(r, at), part.none) }
			add(part.prefix+at.String(), text(part.before), text(part.now))
		}
	}
	weight := func(q *bursarv1.Quota) string { return fmt.Sprint(max(1, q.GetWeight())) }
	add("weight", weight(before), weight(now))
	rounding := func(q *bursarv1.Quota) string { return cmp.Or(render.NormalizationText(q.GetNormalization()), "none") }
	add("rounding", rounding(before), rounding(now))
	return lines
}

// placesIn are the places of the external parts of some limits or guarantees, in order.
func placesIn(list ...*bursarv1.Resource) (places []resource.Address) {
	for _, r := range list {
		_, external, err := convert.LimitFromProto(render.OrEmpty(r))
		if err != nil { // a newer server has others
			continue
		}
		for _, e := range external {
			places = append(places, e.Address)
		}
	}
	slices.SortFunc(places, resource.Address.Compare)
	return slices.Compact(places)
}

// textAt is the text of a limit or a guarantee for a place; empty: nothing.
func textAt(r *bursarv1.Resource, at resource.Address) string {
	_, external, _ := convert.LimitFromProto(render.OrEmpty(r))
	if v, named := (resource.Resource{External: external}).Part(at); named {
		return v.String()
	}
	return ""
}

// printSetQuota prints a rule, its changes, and the accounts that have more than it allows.
func printSetQuota(out *render.Printer, set setQuota, dryRun bool) error {
	if out.IsJSON() {
		return printSetQuotaJSON(out, set)
	}
	out.Printf("%s\n", render.QuotaLine(set.now))
	if set.before != nil {
		lines := quotaDifference(set.before, set.now)
		if was, is := set.before.GetSource(), set.now.GetSource(); was != is {
			lines = append(lines, fmt.Sprintf("source: %s -> %s", was, is))
		}
		if len(lines) == 0 {
			lines = []string{"as it was"}
		}
		for _, line := range lines {
			out.Printf("  %s\n", line)
		}
	}
	for i, over := range set.over {
		if i == mostOver {
			out.Printf("over: %d more\n", len(set.over)-mostOver)
			break
		}
		out.Printf("over: %s\n", over.text())
	}
	if dryRun {
		out.Printf("nothing was changed (--dry-run)\n")
	}
	return out.Lost()
}

// mostOver is how many accounts are listed that have too much.
const mostOver = 20

func printSetQuotaJSON(out *render.Printer, set setQuota) error {
	now, err := render.JSONText(set.now)
	if err != nil {
		return err
	}
	before := []byte("null")
	if set.before != nil {
		if before, err = render.JSONText(set.before); err != nil {
			return err
		}
	}
	list := make([]overJSON, len(set.over))
	for i, over := range set.over {
		list[i] = over.json()
	}
	over, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("marshal: %w", err)
	}
	return out.PrintJSON(render.WithField(render.WithField(now, "before", before), "over", over))
}

// scopeOf is the part of an allocation's labels that a rule looks at, as text.
func scopeOf(labels, selector map[string]string) map[string]string {
	scope := make(map[string]string, len(selector))
	for key := range maps.Keys(selector) {
		scope[key] = labels[key]
	}
	return scope
}
