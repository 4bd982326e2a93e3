package render

import (
	"maps"
	"slices"
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// AccountHeader and AccountRows show accounts, a row for each dimension.
func AccountHeader() []string {
	return []string{"ACCOUNT", "DIMENSION", "LIMIT", "PROTECTED", "USED", "RESERVED", "OTHERS", "AVAILABLE", "WAITING", "NOTE"}
}

// AccountRows returns the rows of accounts below AccountHeader, a row for each dimension.
func AccountRows(accounts []*bursarv1.Account) [][]string {
	var rows [][]string
	for _, a := range accounts {
		first := true
		for _, dimension := range dimensions(a) {
			row := []string{
				"", withUnit(dimension), QuantityOf(a.GetLimit(), dimension), QuantityOf(a.GetProtected(), dimension),
				unlessNone(QuantityOf(a.GetUsed(), dimension)), unlessNone(QuantityOf(a.GetReserved(), dimension)),
				QuantityOf(a.GetUsedByOthers(), dimension), QuantityOf(a.GetAvailable(), dimension),
			}
			note := overNote(a, dimension, first)
			waiting := ""
			if first {
				row[0], waiting, note = AccountText(a.GetName()), Count(a.GetWaiting()), joined(note, heldNote(a), clusterNote(a))
				first = false
			}
			row = append(row, waiting, note)
			rows = append(rows, row)
		}
		if first {
			rows = append(rows, []string{AccountText(a.GetName()), "", "", "", "", "", "", "", Count(a.GetWaiting()), joined(accountNote(a), clusterNote(a))})
		}
	}
	return rows
}

// unlessNone leaves a cell empty if nothing is used or reserved, and so the column if nothing is in
// any row.
func unlessNone(quantity string) string {
	if quantity == "0" {
		return ""
	}
	return quantity
}

// withUnit names a dimension and the unit of its cells, if they do not have it themselves.
func withUnit(dimension string) string {
	switch dimension {
	case resource.CPU:
		return "cpu (cores)"
	case resource.AMCPU:
		return "am-cpu (cores)"
	}
	return dimension
}

const overItsLimit = "over its limit"

// accountNote has the remarks on an account in addition to its numbers.
func accountNote(a *bursarv1.Account) string {
	over := ""
	if a.GetOverLimit() {
		over = overItsLimit
	}
	return joined(over, heldNote(a))
}

// clusterNote says which facts the numbers of a queue, or of a user's part of one, do not mean.
func clusterNote(a *bursarv1.Account) string {
	var enforced, estimated, user string
	if list := a.GetNotEnforced(); len(list) > 0 {
		enforced = strings.Join(list, " and ") + " not enforced by the cluster"
	}
	if list := a.GetEstimated(); len(list) > 0 {
		estimated = "limit of " + strings.Join(list, " and ") + " estimated"
	}
	if a != nil && a.UserPercent != nil {
		user = "the cluster may hold a user at " + PercentText(a.UserPercent) + " of the queue while others want more"
	}
	return joined(OneLine(enforced), OneLine(estimated), user, growsNote(a), heldBackNote(a))
}

// growsNote says to which size the limits of a queue, or of a user's part of one, may become.
func growsNote(a *bursarv1.Account) string {
	if text := amountsText(a.GetMayGrow()); text != "" {
		return "may grow to " + text
	}
	return ""
}

// heldBackNote names the applications that a cluster does not start in a queue although that has
// room.
func heldBackNote(a *bursarv1.Account) string {
	held := a.GetHeldBack()
	if held == nil {
		return ""
	}
	return OneLine(ledger.HeldBack{Applications: held.GetApplications(), Reason: held.GetReason()}.String())
}

// overNote says of a dimension that the account has more of it than its limit. If the numbers do
// not show of which, the first row says it.
func overNote(a *bursarv1.Account, dimension string, first bool) string {
	isOver := func(dimension string) bool { return strings.HasPrefix(QuantityOf(a.GetAvailable(), dimension), "-") }
	if a.GetOverLimit() && (isOver(dimension) || first && !slices.ContainsFunc(dimensions(a), isOver)) {
		return overItsLimit
	}
	return ""
}

// heldNote names the request that an account is held for, the time until then, and the quantity
// that stays idle.
func heldNote(a *bursarv1.Account) string {
	if a.GetHeldFor() == "" {
		return ""
	}
	note := "held for " + a.GetHeldFor()
	if a.GetHeldUntil() != nil { // an older coordinator does not say it
		note += " until " + TimeText(a.GetHeldUntil())
	}
	if kept := amountsText(a.GetKept()); kept != "" {
		note += ", keeps " + kept
	}
	return note
}

// dimensions lists, in the usual order, the dimensions that an account limits or has given
// something of.
func dimensions(a *bursarv1.Account) []string {
	fixed, custom := map[string]bool{}, map[string]bool{}
	limit, used, reserved := OrEmpty(a.GetLimit()), OrEmpty(a.GetUsed()), OrEmpty(a.GetReserved())
	fixed[resource.Memory] = limit.MemoryBytes != nil || used.GetMemoryBytes()+reserved.GetMemoryBytes() != 0
	fixed[resource.CPU] = limit.CpuMillis != nil || used.GetCpuMillis()+reserved.GetCpuMillis() != 0
	fixed[resource.Instances] = limit.Instances != nil || used.GetInstances()+reserved.GetInstances() != 0
	for name := range limit.GetCustom() {
		custom[name] = true
	}
	for _, r := range []*bursarv1.Resource{used, reserved} {
		for name, n := range r.GetCustom() {
			if n != 0 {
				custom[name] = true
			}
		}
	}
	var names []string
	for _, name := range []string{resource.Memory, resource.CPU, resource.Instances} {
		if fixed[name] {
			names = append(names, name)
		}
	}
	return append(names, slices.Sorted(maps.Keys(custom))...)
}
