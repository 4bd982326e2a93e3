package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// applicationsNote says that a queue starts nothing more now because of its limit of applications,
// which AVAILABLE does not show. The first master is free.
func applicationsNote(a *bursarv1.Account) string {
	var short []string
	for dimension, most := range a.GetLimit().GetCustom() {
		of := func(r *bursarv1.Resource) int64 { return r.GetCustom()[dimension] }
		has := of(a.GetUsed()) + of(a.GetReserved()) + of(a.GetUsedByOthers())
		if resource.OfApplications(dimension) && has >= most && (has > 0 || !resource.OfMasters(dimension)) {
			short = append(short, dimension)
		}
	}
	if len(short) == 0 {
		return ""
	}
	slices.Sort(short)
	return "no more " + strings.Join(short, " and ") + " now"
}

// oursOf is the resource that our allocations hold in a queue.
func oursOf(a *bursarv1.Account) *bursarv1.Resource {
	used, usedErr := convert.VectorFromProto(a.GetUsed())
	reserved, reservedErr := convert.VectorFromProto(a.GetReserved())
	if usedErr != nil || reservedErr != nil {
		return nil
	}
	sum := used
	for dimension, n := range reserved.All() {
		before, _ := sum.Get(dimension)
		sum = sum.With(dimension, before+n)
	}
	if sum.IsZero() {
		return nil
	}
	return convert.VectorToProto(sum)
}

// QuantitiesText writes a vector for the eye: "64GiB, 16 cpu, 2 yarn.io/gpu". Applications have
// columns of their own.
func QuantitiesText(r *bursarv1.Resource) string {
	if r == nil {
		return ""
	}
	var parts []string
	for _, dimension := range SetDimensions(r) {
		if resource.OfApplications(dimension) {
			continue
		}
		text := QuantityOf(r, dimension)
		if dimension != resource.Memory {
			text += " " + dimension
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// LimitText writes a limit. A dimension that it does not have is not limited.
func LimitText(r *bursarv1.Resource) string {
	text := QuantitiesText(r)
	if r != nil && text == "" {
		return "unlimited"
	}
	return text
}

// SetDimensions lists the dimensions that are set, in the usual order.
func SetDimensions(r *bursarv1.Resource) []string { return dimensions(&bursarv1.Account{Limit: r}) }

// ApplicationsText writes "3/1/100": active, pending, and the limit. If active and pending ones
// are not known apart, it writes their sum.
func ApplicationsText(q *bursarv1.Queue) string {
	most := ""
	if q.MaxApplications != nil {
		most = "/" + strconv.Itoa(int(q.GetMaxApplications()))
		if q.GetMaxApplications() == unlimitedApplications {
			most = "/unlimited"
		}
	}
	switch {
	case q.Active != nil && q.Pending != nil:
		return fmt.Sprintf("%d/%d%s", q.GetActive(), q.GetPending(), most)
	case q.Applications != nil:
		return strconv.Itoa(int(q.GetApplications())) + most
	case most != "":
		return "?" + most
	}
	return ""
}

// unlimitedApplications is YARN's word for no limit.
const unlimitedApplications = 1<<31 - 1

// PercentText writes a share with at most two decimals.
func PercentText(share *float64) string {
	if share == nil {
		return ""
	}
	text := strconv.FormatFloat(*share, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + " %"
}

// joined joins the texts that are not empty.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), ", ")
}
