package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

func explainCommand(c *connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [ID | flags of allocate]",
		Short: "Why a request waits, was refused, or what it would meet",
		Long: `Explain says why a request waits, or what a request would meet now. It shows
every account of the request with its numbers, and how much is missing in which
of them. It shows how many hosts each step of the search removed, and the place
in the queue. Of a request that has waited for long while later ones were
granted, it names the largest allocations that stand in its way. It changes
nothing.

A request that names no host with --host is tried on all hosts; with --agent, on
the agent's host.`,
		Example: `  # a request that was not made
  bursar explain -m 4GiB -c 2 --label user=alice --label creator=IDE

  # one that waits, or has ended
  bursar explain 3f7k

  bursar explain -m 16GiB --custom gpu=1 -l user=alice -o json

  # also its queue, with those above it
  bursar explain -m 4GiB -l user=alice \
    --external yarn:prod:root.a,memory=64GiB,cpu=16`,
		Args:              atMost(1),
		ValidArgsFunction: c.completeOneAllocation,
	}
	f := addRequestFlags(cmd)
	addPlaceFlags(cmd, f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cl, err := c.either(cmd)
		if err != nil {
			return err
		}
		req, err := explainRequest(cmd.Context(), c.printer, cl, f, args)
		if err != nil {
			return err
		}
		res, err := cl.Allocations().Explain(cmd.Context(), req)
		if err != nil {
			return err
		}
		return c.print(res, func() { printExplanation(c.printer, res) })
	}
	return cmd
}

func explainRequest(ctx context.Context, out *printer, cl *client.Client, f *requestFlags, args []string) (*bursarv1.ExplainRequest, error) {
	if len(args) == 0 {
		req, err := f.request()
		if err != nil {
			return nil, err
		}
		return &bursarv1.ExplainRequest{Request: req}, nil
	}
	if f.resource.isSet() || len(f.labels) > 0 {
		return nil, usagef("an id and the flags of a request: want one of them")
	}
	id, err := allocationID(ctx, cl, args[0])
	if err != nil {
		return nil, err
	}
	return &bursarv1.ExplainRequest{Id: id}, nil
}

func printExplanation(out *printer, res *bursarv1.ExplainResponse) {
	out.warn(res.GetWarnings())
	out.printf("%s\n", verdictText(res))
	for _, text := range shortfallTexts(res.GetShortfalls()) {
		out.printf("  %s\n", text)
	}
	for _, text := range runnersTexts(res.GetRunners()) {
		out.printf("  %s\n", text)
	}
	if f := res.GetFilters(); f != nil {
		out.printf("\n%s\n", filtersText(f, res.GetShortfalls()))
	}
	if len(res.GetAccounts()) > 0 {
		out.printf("\n")
		out.table(accountHeader(), accountRows(res.GetAccounts()))
	}
}

func verdictText(res *bursarv1.ExplainResponse) string {
	switch res.GetVerdict() {
	case bursarv1.ExplainResponse_VERDICT_FITS:
		if res.GetHostId() == "" {
			return "fits now"
		}
		return "fits now, on host " + res.GetHostId()
	case bursarv1.ExplainResponse_VERDICT_WAITS:
		if !waits(res) {
			return "does not fit now" + placeText(res) + absenceText(res)
		}
		text := "waits" + placeText(res) + absenceText(res)
		if ends := res.GetAllocation().GetExpireTime(); ends != nil {
			text += "; until " + timeText(ends) + ", " + until(ends, time.Now()) + " left"
		}
		return text
	case bursarv1.ExplainResponse_VERDICT_NEVER:
		return "can never fit"
	case bursarv1.ExplainResponse_VERDICT_DECIDED:
		return "decided: " + allocationLine(res.GetAllocation())
	case bursarv1.ExplainResponse_VERDICT_UNSPECIFIED:
	}
	return "no verdict"
}

// absenceText says that no host there is could take the request; empty if one could.
func absenceText(res *bursarv1.ExplainResponse) string {
	f := res.GetFilters()
	switch {
	case slices.ContainsFunc(res.GetShortfalls(), convert.HostIsAbsent):
		return ": no such host is there yet"
	case slices.ContainsFunc(res.GetShortfalls(), func(s *bursarv1.Shortfall) bool { return noteOf(s) == noteTooSmall }):
		return ": no host is that large yet"
	case f != nil && f.GetTotal() == f.GetLabels() && f.GetFleet() == 0:
		return ": no such host is there yet"
	}
	return ""
}

// waits reports whether a request was made and waits.
func waits(res *bursarv1.ExplainResponse) bool {
	return res.GetAllocation().GetState() == bursarv1.AllocationState_ALLOCATION_STATE_WAITING
}

// placeText says at which place in the queue a request is: ": next in line for host vm-1", ": 3
// requests before it in line for quota user=alice". One that waits for any host is in line for no
// account.
func placeText(res *bursarv1.ExplainResponse) string {
	line := " in line"
	switch {
	case res.GetBlockedBy() != nil:
		line += " for " + accountText(res.GetBlockedBy())
	case !waits(res):
		return ""
	}
	if n := res.GetPlace(); n > 0 {
		return ": " + counted(int(n), "request", "requests") + " before it" + line
	}
	return ": next" + line
}

// accountHeader and accountRows show accounts, a row for each dimension.
func accountHeader() []string {
	return []string{"ACCOUNT", "DIMENSION", "LIMIT", "PROTECTED", "USED", "RESERVED", "OTHERS", "AVAILABLE", "WAITING", "NOTE"}
}

func accountRows(accounts []*bursarv1.Account) [][]string {
	var rows [][]string
	for _, a := range accounts {
		first := true
		for _, dimension := range dimensions(a) {
			row := []string{
				"", withUnit(dimension), quantityOf(a.GetLimit(), dimension), quantityOf(a.GetProtected(), dimension),
				unlessNone(quantityOf(a.GetUsed(), dimension)), unlessNone(quantityOf(a.GetReserved(), dimension)),
				quantityOf(a.GetUsedByOthers(), dimension), quantityOf(a.GetAvailable(), dimension),
			}
			note := overNote(a, dimension, first)
			waiting := ""
			if first {
				row[0], waiting, note = accountText(a.GetName()), count(a.GetWaiting()), joined(note, heldNote(a), clusterNote(a))
				first = false
			}
			row = append(row, waiting, note)
			rows = append(rows, row)
		}
		if first {
			rows = append(rows, []string{accountText(a.GetName()), "", "", "", "", "", "", "", count(a.GetWaiting()), joined(accountNote(a), clusterNote(a))})
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

// accountNote says what is to be known of an account in addition to its numbers.
func accountNote(a *bursarv1.Account) string {
	over := ""
	if a.GetOverLimit() {
		over = overItsLimit
	}
	return joined(over, heldNote(a))
}

// clusterNote says what the numbers of a queue, or of a user's part of one, do not mean.
func clusterNote(a *bursarv1.Account) string {
	var enforced, estimated, user string
	if list := a.GetNotEnforced(); len(list) > 0 {
		enforced = strings.Join(list, " and ") + " not enforced by the cluster"
	}
	if list := a.GetEstimated(); len(list) > 0 {
		estimated = "limit of " + strings.Join(list, " and ") + " estimated"
	}
	if a != nil && a.UserPercent != nil {
		user = "the cluster may hold a user at " + percentText(a.UserPercent) + " of the queue while others want more"
	}
	return joined(oneLine(enforced), oneLine(estimated), user, growsNote(a), heldBackNote(a))
}

// growsNote says what the limits of a queue, or of a user's part of one, may become.
func growsNote(a *bursarv1.Account) string {
	if text := amountsText(a.GetMayGrow()); text != "" {
		return "may grow to " + text
	}
	return ""
}

// heldBackNote says what a cluster does not start in a queue although that has room.
func heldBackNote(a *bursarv1.Account) string {
	held := a.GetHeldBack()
	if held == nil {
		return ""
	}
	return oneLine(ledger.HeldBack{Applications: held.GetApplications(), Reason: held.GetReason()}.String())
}

// overNote says of a dimension that the account has more of it than its limit. If the numbers do
// not show of which, the first row says it.
func overNote(a *bursarv1.Account, dimension string, first bool) string {
	isOver := func(dimension string) bool { return strings.HasPrefix(quantityOf(a.GetAvailable(), dimension), "-") }
	if a.GetOverLimit() && (isOver(dimension) || first && !slices.ContainsFunc(dimensions(a), isOver)) {
		return overItsLimit
	}
	return ""
}

// heldNote says for whom an account is held, until when, and what that keeps idle.
func heldNote(a *bursarv1.Account) string {
	if a.GetHeldFor() == "" {
		return ""
	}
	note := "held for " + a.GetHeldFor()
	if a.GetHeldUntil() != nil { // an older coordinator does not say it
		note += " until " + timeText(a.GetHeldUntil())
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
	limit, used, reserved := orEmpty(a.GetLimit()), orEmpty(a.GetUsed()), orEmpty(a.GetReserved())
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

// quantityOf writes one dimension of a resource; empty if it is unset. What is available may be
// below zero.
func quantityOf(r *bursarv1.Resource, dimension string) string {
	if r == nil {
		return ""
	}
	switch dimension {
	case resource.Memory:
		return optional(dimension, r.MemoryBytes)
	case resource.CPU:
		return optional(dimension, r.CpuMillis)
	case resource.Instances:
		return optional(dimension, r.Instances)
	}
	if n, set := r.GetCustom()[dimension]; set {
		return quantityText(dimension, n)
	}
	return ""
}

// count writes a number; empty for none.
func count(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// counted writes a number with its noun.
func counted(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n) + " " + several
}
