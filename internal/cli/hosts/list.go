package hosts

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

func hostsCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hosts [ID]",
		Short: "The hosts: what is booked, next to what is used",
		Long: `Hosts shows three things for every host: how much of what it may give away is
booked, what its engines really use, and how much memory it could still give by
its last measurement (headroom). With an id it shows all about one host.

A column for the labels of the hosts, which --require and --avoid select by,
comes with --show-labels, and with -o wide.`,
		Example: `  bursar hosts
  bursar hosts --label zone=a --state suspect -o wide
  bursar hosts --show-labels
  bursar hosts vm-1

  # hosts with less than 4 GiB of headroom
  bursar hosts -o json | jq -r '.hosts[] | select(.headroomBytes) |
    select((.headroomBytes | tonumber) < 4294967296) | .id'`,
		Args:              cmdline.AtMost(1),
		ValidArgsFunction: lookup.CompleteHosts(c),
	}
	labels := cmdline.FilterFlag{}
	var states []string
	showLabels := cmd.Flags().Bool("show-labels", false, "also show the labels of each host")
	cmd.Flags().VarP(labels, "label", "l", "only hosts with this label; repeatable")
	cmd.Flags().StringSliceVar(&states, "state", nil, "only hosts in this state: healthy, suspect, lost, returning or expected; repeatable")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return err
		}
		if len(args) == 1 {
			id, err := lookup.HostID(cmd.Context(), cl, args[0])
			if _, missing := errors.AsType[*failure.NoSuchError](err); missing {
				if meant := cmdline.Singular(cmd, args[0]); meant != "" {
					err = &failure.HintedError{Err: err, Hint: strings.TrimPrefix(meant, "; ")}
				}
			}
			if err != nil {
				return err
			}
			res, err := cl.Hosts().Get(cmd.Context(), &bursarv1.HostServiceGetRequest{Id: id})
			if err != nil {
				return err
			}
			return c.Print(res.GetHost(), func() { printHost(c.Printer, res.GetHost(), hostOverUses(cmd.Context(), cl, id, time.Now())) })
		}
		filter := cmdline.FiltersOf(labels.Text(), cmdline.FilterText("--state", states...))
		req := &bursarv1.HostServiceListRequest{Labels: labels, PageSize: 1000}
		for _, name := range states {
			state, known := bursarv1.HostState_value["HOST_STATE_"+strings.ToUpper(name)]
			if !known {
				return failure.Usagef("--state %q: want healthy, suspect, lost, returning or expected", name)
			}
			req.States = append(req.States, bursarv1.HostState(state))
		}
		all := &bursarv1.HostServiceListResponse{}
		for page, err := range cl.ListHosts(cmd.Context(), req) {
			if err != nil {
				return err
			}
			all.Hosts = append(all.Hosts, page.GetHosts()...)
			all.Revision = page.GetRevision()
		}
		return c.Print(all, func() { printHosts(c.Printer, all.GetHosts(), filter, *showLabels) })
	}
	return cmd
}

// printHosts prints those that a filter has left.
func printHosts(out *render.Printer, hosts []*bursarv1.Host, filter string, labels bool) {
	switch {
	case len(hosts) == 0 && filter != "":
		out.Sayf("no host matches %s", filter)
		return
	case len(hosts) == 0:
		out.Sayf("no hosts: `bursar agent` on a machine makes it one")
		return
	}
	header := []string{"HOST", "STATE", "ENGINES", "RESERVED", "WAITING", "MEMORY BOOKED", "USED", "HEADROOM", "CORES BOOKED", "USED", "OTHER BOOKED", "SEEN"}
	if out.Wide() {
		header = append(header, "HOST MEMORY FREE", "HOST CORES USED", "LOAD", "LABELS", "ADDRESS", "VERSION")
	}
	if labels = labels && !out.Wide(); labels { // the wide form has them anyway
		header = append(header, "LABELS")
	}
	header = append(header, "NOTE")
	now := time.Now()
	var rows [][]string
	for _, h := range hosts {
		a, used := h.GetAccount(), render.OrEmpty(h.GetEnginesMeasured())
		row := []string{
			h.GetId(), render.HostState(h), fmt.Sprint(engines(h)), render.Count(h.GetReservations()), render.Count(a.GetWaiting()),
			booked(a, resource.Memory), render.Optional(resource.Memory, render.MemoryInUse(used, h.GetEnginesUnreclaimableBytes())), render.Headroom(h),
			booked(a, resource.CPU), render.Optional(resource.CPU, used.CpuMillis),
			otherBooked(a), render.Since(h.GetLastSyncTime(), now),
		}
		if out.Wide() {
			s := h.GetSample()
			if s == nil {
				s = &bursarv1.HostSample{}
			}
			row = append(row, render.Share(resource.Memory, s.MemoryAvailableBytes, s.MemoryTotalBytes), render.Share(resource.CPU, s.CpuUsedMillis, s.CpuTotalMillis),
				load(s), render.LabelsText(h.GetLabels()), h.GetAddress(), h.GetVersion())
		}
		if labels {
			row = append(row, render.LabelsText(h.GetLabels()))
		}
		rows = append(rows, append(row, render.HostNote(h, now)))
	}
	out.Table(header, rows)
}

func printHost(out *render.Printer, h *bursarv1.Host, overUses []string) {
	now := time.Now()
	s := h.GetSample()
	out.Facts(append([]string{
		"id", h.GetId(),
		"state", render.HostState(h),
		"takes no engines", render.UnavailableText(h, now),
		"also calls for it", h.GetStranger(),
		"same machine as", strings.Join(h.GetSameMachine(), ", "),
		"may not have", strings.Join(h.GetCut(), "; "),
		"note", strings.Join(h.GetSample().GetNotes(), "; "),
		"not accepted yet", render.Count(h.GetUnaccepted()),
		"address", h.GetAddress(),
		"labels", render.LabelsText(h.GetLabels()),
		"agent", h.GetVersion(),
		"registered", render.Ago(h.GetRegisterTime(), now),
		"last report", render.Ago(h.GetLastSyncTime(), now),
		"engines", fmt.Sprint(engines(h)),
		"reservations", render.Count(h.GetReservations()),
		"engines use", render.UsesText(h.GetEnginesMeasured(), h.GetEnginesUnreclaimableBytes()),
		"headroom", render.Headroom(h),
	}, overUses...)...)
	if s != nil {
		out.Printf("\nmeasured %s\n", render.Ago(s.GetSampleTime(), now))
		facts := []string{
			"  memory free", render.Share(resource.Memory, s.MemoryAvailableBytes, s.MemoryTotalBytes),
			"  kept for the machine", render.Optional(resource.Memory, s.MemorySafetyBytes),
			"  cpu used", render.Share(resource.CPU, s.CpuUsedMillis, s.CpuTotalMillis),
			"  load", load(s),
			"  memory stalls", percent(s.MemorySomeAvg10, s.MemoryFullAvg10),
			"  swap used", render.Share(resource.Memory, s.SwapUsedBytes, s.SwapTotalBytes),
			"  huge pages free", hugePages(s),
			"  " + render.OutOfMemory, killedText(s),
			"  processes", fmt.Sprint(s.GetProcesses()),
		}
		for _, d := range s.GetDisks() {
			facts = append(facts, "  disk "+render.Printable(d.GetPath()), render.DiskText(d))
		}
		out.Facts(facts...)
		for _, source := range slices.Sorted(maps.Keys(s.GetDegraded())) {
			out.Facts("  odd or not measured: "+render.Printable(source), s.GetDegraded()[source])
		}
	}
	out.Printf("\n")
	out.Table(render.AccountHeader(), render.AccountRows([]*bursarv1.Account{h.GetAccount()}))
}

// engines is how many engines a host has. A reservation has none yet.
func engines(h *bursarv1.Host) int64 { return h.GetAccount().GetAllocations() - h.GetReservations() }

// liveText is how many engines and reservations a host has: "2 engines, 1 reservation".
func liveText(h *bursarv1.Host) string {
	text := render.Counted(int(engines(h)), "engine", "engines")
	if n := h.GetReservations(); n > 0 {
		text += ", " + render.Counted(int(n), "reservation", "reservations")
	}
	return text
}

// hugePages writes how much of the memory for huge pages is free; empty if there is none.
func hugePages(s *bursarv1.HostSample) string {
	if s.GetHugePagesTotalBytes() == 0 {
		return ""
	}
	return render.Share(resource.Memory, s.HugePagesFreeBytes, s.HugePagesTotalBytes)
}

// killedText writes how many processes the kernel has killed for lack of memory; empty for none.
func killedText(s *bursarv1.HostSample) string {
	if s.GetOutOfMemoryKills() == 0 {
		return ""
	}
	return render.Counted(int(s.GetOutOfMemoryKills()), "process", "processes") + " since the boot"
}

// booked writes how much of the capacity is used and reserved.
func booked(a *bursarv1.Account, dimension string) string {
	pick := func(r *bursarv1.Resource) *int64 {
		if dimension == resource.Memory {
			return r.MemoryBytes
		}
		return r.CpuMillis
	}
	if a == nil {
		return ""
	}
	limit := pick(render.OrEmpty(a.GetLimit()))
	if limit != nil {
		most := *limit
		if protected := pick(render.OrEmpty(a.GetProtected())); protected != nil {
			most -= *protected
		}
		limit = &most
	}
	return render.Share(dimension, render.Plus(pick(render.OrEmpty(a.GetUsed())), pick(render.OrEmpty(a.GetReserved()))), limit)
}

// otherBooked writes what is booked of the countable things: "gpu 1 / 4".
func otherBooked(a *bursarv1.Account) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(a.GetLimit().GetCustom())) {
		parts = append(parts, fmt.Sprintf("%s %d / %d", name,
			a.GetUsed().GetCustom()[name]+a.GetReserved().GetCustom()[name], a.GetLimit().GetCustom()[name]))
	}
	return strings.Join(parts, ", ")
}

func load(s *bursarv1.HostSample) string {
	if s == nil || s.Load1Millis == nil {
		return ""
	}
	return fmt.Sprintf("%d.%02d", *s.Load1Millis/1000, *s.Load1Millis%1000/10)
}

// percent writes hundredths of a percent: "some 0.53 %, all 0.10 %".
func percent(some, full *int32) string {
	if some == nil || full == nil {
		return ""
	}
	return fmt.Sprintf("%d.%02d %% of the time some, %d.%02d %% all", *some/100, *some%100, *full/100, *full%100)
}
