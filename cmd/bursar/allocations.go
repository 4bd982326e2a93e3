package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

func allocationsCommand(c *connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "allocations [ID]",
		Short: "Who holds or waits for what, next to what is used",
		Long: `Allocations shows who holds what: what each engine is entitled to, next to what
its whole process tree really uses. With an id it shows all about one
allocation, live or ended. With --agent it asks the agent of this host, about
this host.

With --since or --until it shows those that ended in that time, the latest
first. Each takes a time in this machine's zone, as tables have it, a day, or
how long ago that was.

An engine that uses more than it is entitled to is marked. The mark says how
much more it used when this was noticed, and what its host does about it.`,
		Example: `  bursar allocations
  bursar allocations --label user=alice --label 'engineType=*'
  bursar allocations --state waiting
  bursar allocations --ended --limit 20
  bursar allocations --since 2h
  bursar allocations --since '2027-01-31 08:00:00' --until 2027-02-01
  bursar allocations 3f7k
  bursar allocations -o json | jq -r '.allocations[].id'`,
		Args:              atMost(1),
		ValidArgsFunction: c.completeOneAllocation,
	}
	f := listFlags{labels: filterFlag{}}
	flags := cmd.Flags()
	flags.VarP(f.labels, "label", "l", "only with this label, * for any value; repeatable")
	flags.Var(hostFlag{&f.host}, "host", "only on this host")
	flags.StringSliceVar(&f.states, "state", nil, "only in this state: waiting, reserved, active, …; repeatable")
	flags.BoolVar(&f.ended, "ended", false, "also those that have ended, newest first")
	flags.Var(&f.since, "since", "that ended at this time or later: 2027-01-31, '2027-01-31 08:00:00', or 2h for 2 hours ago")
	flags.Var(&f.until, "until", "that ended before this time")
	flags.IntVar(&f.limit, "limit", 0, "at most this many (default: all that live; 100 of those that have ended)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flag := f.timed(); flag != "" && len(args) > 0 {
			return usagef("%s: means nothing next to an ID: want one of them", flag)
		}
		cl, err := c.either(cmd)
		if err != nil {
			return err
		}
		if len(args) == 1 {
			id, err := allocationID(cmd.Context(), cl, args[0])
			if err != nil {
				return err
			}
			res, err := cl.Allocations().Get(cmd.Context(), &bursarv1.AllocationServiceGetRequest{Id: id})
			if err != nil {
				return err
			}
			return c.print(res.GetAllocation(), func() { printAllocation(c.printer, res.GetAllocation()) })
		}
		all, more, err := f.list(cmd.Context(), cl)
		if err != nil {
			return err
		}
		if more {
			return printSome(c.printer, all, f)
		}
		return c.print(all, func() { printAllocations(c.printer, all.GetAllocations(), f.text()) })
	}
	return cmd
}

// printSome prints a list that is cut off: there are more.
func printSome(out *printer, some *bursarv1.AllocationServiceListResponse, f listFlags) error {
	if out.isJSON() {
		text, err := jsonText(some)
		if err != nil {
			return err
		}
		return out.printJSON(withField(text, "more", []byte("true")))
	}
	printAllocations(out, some.GetAllocations(), f.text())
	which := "first"
	if f.ended || f.timed() != "" {
		which = "latest"
	}
	out.sayf("the %s %d; --limit N shows more", which, len(some.GetAllocations()))
	return out.lost()
}

// listFlags select allocations.
type listFlags struct {
	labels filterFlag
	host   string
	states []string
	ended  bool
	since  timeFlag
	until  timeFlag
	limit  int
}

// text is the filter as it was typed; empty without any.
func (f *listFlags) text() string {
	return filtersOf(f.labels.text(), filterText("--host", f.host), filterText("--state", f.states...), filterText("--since", f.since.text), filterText("--until", f.until.text))
}

// maxPage is the largest page that the contract allows.
const maxPage = 1000

// timed is the flag that asks for what has ended in a time; empty if none does.
func (f *listFlags) timed() string {
	switch {
	case f.since.text != "":
		return "--since"
	case f.until.text != "":
		return "--until"
	}
	return ""
}

// list asks for all pages, up to the limit. It reports whether there are more.
func (f *listFlags) list(ctx context.Context, cl *client.Client) (all *bursarv1.AllocationServiceListResponse, more bool, err error) {
	most := f.limit
	if most == 0 && (f.ended || f.timed() != "") {
		most = 100
	}
	if f.until.text != "" && !f.until.time.After(f.since.time) {
		return nil, false, usagef("--until %q: want a time after --since %q", f.until.text, f.since.text)
	}
	if most < 0 {
		return nil, false, usagef("--limit %d: want a number that is not negative", f.limit)
	}
	req := &bursarv1.AllocationServiceListRequest{Labels: f.labels, HostId: f.host, Ended: f.ended, PageSize: maxPage, EndedSince: f.since.message(), EndedBefore: f.until.message()}
	if most > 0 {
		req.PageSize = int32(min(most, maxPage-1) + 1) // one more shows whether there are more
	}
	for _, name := range f.states {
		state, known := bursarv1.AllocationState_value["ALLOCATION_STATE_"+strings.ToUpper(name)]
		if !known || state == 0 {
			return nil, false, usagef("--state %q: want %s", name, strings.Join(stateNames(), ", "))
		}
		if flag := f.timed(); flag != "" && lives(bursarv1.AllocationState(state)) {
			return nil, false, usagef("--state %q: has not ended, and %s shows what has: want released, expired, canceled or lost", name, flag)
		}
		req.States = append(req.States, bursarv1.AllocationState(state))
	}
	all = &bursarv1.AllocationServiceListResponse{}
	for page, err := range cl.ListAllocations(ctx, req) {
		if err != nil {
			return nil, false, err
		}
		all.Allocations = append(all.Allocations, page.GetAllocations()...)
		all.Revision = page.GetRevision()
		if most > 0 && len(all.GetAllocations()) > most {
			all.Allocations = all.Allocations[:most]
			return all, true, nil
		}
	}
	return all, false, nil
}

// lives reports whether an allocation in a state has not ended.
func lives(state bursarv1.AllocationState) bool {
	switch state {
	case bursarv1.AllocationState_ALLOCATION_STATE_WAITING, bursarv1.AllocationState_ALLOCATION_STATE_RESERVED,
		bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE:
		return true
	default:
		return false
	}
}

// stateNames lists the states of allocations as they are typed.
func stateNames() []string {
	var names []string
	for n := 1; n < len(bursarv1.AllocationState_name); n++ {
		names = append(names, allocationState(bursarv1.AllocationState(n)))
	}
	return names
}

// printAllocations prints those that a filter has left.
func printAllocations(out *printer, allocations []*bursarv1.Allocation, filter string) {
	switch {
	case len(allocations) == 0 && filter != "":
		out.sayf("no allocation matches %s", filter)
		return
	case len(allocations) == 0:
		out.sayf("no allocations: `bursar run` or `bursar allocate` makes one")
		return
	}
	header := []string{"ID", "STATE", "HOST", "MEMORY", "MEMORY USED", "CORES", "CORES USED", "OVER-USE", "OTHER", "AGE", "PID", "LABELS"}
	if out.wide() {
		header = append(header, "CALLER", "PRIORITY", "ENDS", "ADDRESS", "REQUEST ID")
	}
	header = append(header, "NOTE")
	now := time.Now()
	var rows [][]string
	for _, a := range allocations {
		entitled, measured := orEmpty(entitledOrRequested(a)), orEmpty(a.GetMeasured())
		row := []string{
			a.GetId(), allocationState(a.GetState()), a.GetHostId(),
			optional(resource.Memory, entitled.MemoryBytes), optional(resource.Memory, memoryInUse(measured, a.GetUnreclaimableBytes())),
			optional(resource.CPU, entitled.CpuMillis), optional(resource.CPU, measured.CpuMillis),
			overUseText(a, now), otherText(entitled), since(a.GetCreateTime(), now), pid(a), labelsText(a.GetLabels()),
		}
		if out.wide() {
			row = append(row, a.GetCaller(), count(int64(a.GetPriority())), ends(a, now), a.GetAddress(), a.GetRequestId())
		}
		rows = append(rows, append(row, allocationNote(a)))
	}
	out.table(header, rows)
}

func printAllocation(out *printer, a *bursarv1.Allocation) {
	now := time.Now()
	facts := []string{
		"id", a.GetId(),
		"state", allocationState(a.GetState()),
		"reason", a.GetReason(),
		"note", strings.Join(allocationNotes(a), ", "),
		"labels", labelsText(a.GetLabels()),
		"requested", resourceText(a.GetRequested()),
		"entitled", resourceText(a.GetEntitled()),
		"uses", usesText(a.GetMeasured(), a.GetUnreclaimableBytes()),
		"at most", peakText(a),
		"cpu time", cpuTimeText(a.GetCpuTime()),
		"limit of memory", kernelLimit(a),
	}
	facts = append(facts, overUseFacts(a, now)...)
	facts = append(facts, incidentFacts(a)...)
	facts = append(facts,
		"host", hostAndAddress(a),
		"process", processText(a.GetProcess()),
		"main process", leaderEndText(a, now),
		"engine at", a.GetAddress(),
		"applications", namesText(a.GetApplicationIds()),
		"caller", a.GetCaller(),
		"acts as", a.GetActingUser(),
		"its agent claims", claimText(a.GetClaimed()),
		"priority", count(int64(a.GetPriority())),
		"request id", a.GetRequestId(),
		"created", ago(a.GetCreateTime(), now),
		"reserved", ago(a.GetReserveTime(), now),
		"confirmed", ago(a.GetConfirmTime(), now),
		"ends", ends(a, now),
		"ended", ago(a.GetEndTime(), now),
		"exit", exitText(a.GetExitStatus()),
		"stop failed", a.GetStopError(),
		"revision", fmt.Sprint(a.GetRevision()),
	)
	name := "error output"
	for line := range strings.SplitSeq(a.GetErrorOutput(), "\n") {
		facts = append(facts, name, line)
		name = ""
	}
	out.facts(facts...)
}

// claimText has the words of an agent about an engine that no seal vouches for.
func claimText(c *bursarv1.Claim) string {
	if c == nil {
		return ""
	}
	parts := []string{labelsText(c.GetLabels()), resourceText(c.GetEntitled())}
	if c.GetCaller() != "" {
		parts = append(parts, "caller "+c.GetCaller())
	}
	if c.GetActingUser() != "" {
		parts = append(parts, "acting as "+c.GetActingUser())
	}
	return printable(strings.Join(parts, ", ")) + " (bursar host accept)"
}

// allocationLine is an allocation in a few words.
func allocationLine(a *bursarv1.Allocation) string {
	text := allocationState(a.GetState())
	switch {
	case hasEnded(a):
	case a.GetStopping():
		text = "stopping" // its engine runs, or may run
	case a.GetReleasing():
		text = "releasing" // its engine runs
	}
	if size := resourceText(entitledOrRequested(a)); size != "" {
		text += " " + size
	}
	if a.GetHostId() != "" {
		text += " on host " + a.GetHostId()
	}
	if a.GetReason() != "" {
		text += " (" + a.GetReason() + ")"
	}
	if left := leaderEndNote(a); left != "" {
		text += ", " + left
	}
	return printable(text)
}

// entitledOrRequested is what an allocation counts with, or would count with.
func entitledOrRequested(a *bursarv1.Allocation) *bursarv1.Resource {
	if a.GetEntitled() != nil {
		return a.GetEntitled()
	}
	return a.GetRequested()
}

// otherText writes what is neither memory nor cpu; one instance is left out.
func otherText(r *bursarv1.Resource) string {
	rest := &bursarv1.Resource{Custom: r.GetCustom(), External: r.GetExternal()}
	if r.GetInstances() > 1 {
		rest.Instances = r.Instances
	}
	return resourceText(rest)
}

// usedText writes a measurement for people.
func usedText(r *bursarv1.Resource) string {
	if r == nil {
		return ""
	}
	var parts []string
	if r.MemoryBytes != nil {
		parts = append(parts, amountText(resource.Memory, r.GetMemoryBytes()))
	}
	if r.CpuMillis != nil {
		parts = append(parts, amountText(resource.CPU, r.GetCpuMillis()))
	}
	return strings.Join(parts, ", ")
}

func pid(a *bursarv1.Allocation) string { return count(int64(a.GetProcess().GetPid())) }

func processText(p *bursarv1.Process) string {
	if p.GetPid() == 0 {
		return ""
	}
	text := fmt.Sprintf("%d", p.GetPid())
	if p.GetCgroup() != "" {
		text += " in " + p.GetCgroup()
	}
	return text
}

func hostAndAddress(a *bursarv1.Allocation) string {
	if a.GetHostAddress() == "" {
		return a.GetHostId()
	}
	return a.GetHostId() + " at " + a.GetHostAddress()
}

// ends says when an allocation returns by itself; empty if it does not.
func ends(a *bursarv1.Allocation, now time.Time) string {
	if a.GetEndTime() != nil || a.GetExpireTime() == nil {
		return ""
	}
	return "in " + until(a.GetExpireTime(), now)
}

// allocationNotes say what is special about an allocation.
func allocationNotes(a *bursarv1.Allocation) (notes []string) {
	if a.GetOverLimit() {
		notes = append(notes, "over a limit")
	}
	if c := a.GetClaimed(); c != nil {
		notes = append(notes, "on its agent's word alone")
		if user := c.GetLabels()["user"]; user != "" {
			notes[len(notes)-1] += " of user " + user
		}
	}
	if a.GetEndTime() == nil {
		if a.GetStopping() {
			notes = append(notes, "stopping")
		}
		if a.GetReleasing() {
			notes = append(notes, "released by its caller while it ran")
		}
	}
	if left := leaderEndNote(a); left != "" {
		notes = append(notes, left)
	}
	return notes
}

// allocationNote adds why it is in its state, and how it ended.
func allocationNote(a *bursarv1.Allocation) string {
	notes := allocationNotes(a)
	if a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE && a.GetReason() != "" {
		notes = append(notes, a.GetReason())
	}
	if status := exitNote(a); status != "" {
		notes = append(notes, status)
	}
	return strings.Join(notes, ", ")
}
