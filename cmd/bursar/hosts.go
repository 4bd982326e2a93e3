package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

func hostsCommand(c *connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hosts [ID]",
		Short: "The hosts: what is booked, next to what is used",
		Long: `Hosts shows three things for every host: how much of what it may give away is
booked, what its engines really use, and how much memory it could still give by
its last measurement (headroom). With an id it shows all about one host.`,
		Example: `  bursar hosts
  bursar hosts --label zone=a --state suspect -o wide
  bursar hosts vm-1

  # hosts with less than 4 GiB of headroom
  bursar hosts -o json | jq -r '.hosts[] | select(.headroomBytes) |
    select((.headroomBytes | tonumber) < 4294967296) | .id'`,
		Args:              atMost(1),
		ValidArgsFunction: c.completeHosts,
	}
	labels := filterFlag{}
	var states []string
	cmd.Flags().VarP(labels, "label", "l", "only hosts with this label; repeatable")
	cmd.Flags().StringSliceVar(&states, "state", nil, "only hosts in this state: healthy, suspect, lost, returning or expected; repeatable")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cl, err := c.coordinator(cmd.Context())
		if err != nil {
			return err
		}
		if len(args) == 1 {
			id, err := hostID(cmd.Context(), cl, args[0])
			if _, missing := errors.AsType[*noSuchError](err); missing {
				if meant := singular(cmd, args[0]); meant != "" {
					err = &hintedError{err, strings.TrimPrefix(meant, "; ")}
				}
			}
			if err != nil {
				return err
			}
			res, err := cl.Hosts().Get(cmd.Context(), &bursarv1.HostServiceGetRequest{Id: id})
			if err != nil {
				return err
			}
			return c.print(res.GetHost(), func() { printHost(c.printer, res.GetHost(), hostOverUses(cmd.Context(), cl, id, time.Now())) })
		}
		filter := filtersOf(labels.text(), filterText("--state", states...))
		req := &bursarv1.HostServiceListRequest{Labels: labels, PageSize: 1000}
		for _, name := range states {
			state, known := bursarv1.HostState_value["HOST_STATE_"+strings.ToUpper(name)]
			if !known {
				return usagef("--state %q: want healthy, suspect, lost, returning or expected", name)
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
		return c.print(all, func() { printHosts(c.printer, all.GetHosts(), filter) })
	}
	return cmd
}

// printHosts prints those that a filter has left.
func printHosts(out *printer, hosts []*bursarv1.Host, filter string) {
	switch {
	case len(hosts) == 0 && filter != "":
		out.sayf("no host matches %s", filter)
		return
	case len(hosts) == 0:
		out.sayf("no hosts: `bursar agent` on a machine makes it one")
		return
	}
	header := []string{"HOST", "STATE", "ENGINES", "RESERVED", "WAITING", "MEMORY BOOKED", "USED", "HEADROOM", "CORES BOOKED", "USED", "OTHER BOOKED", "SEEN"}
	if out.wide() {
		header = append(header, "HOST MEMORY FREE", "HOST CORES USED", "LOAD", "LABELS", "ADDRESS", "VERSION")
	}
	header = append(header, "NOTE")
	now := time.Now()
	var rows [][]string
	for _, h := range hosts {
		a, used := h.GetAccount(), orEmpty(h.GetEnginesMeasured())
		row := []string{
			h.GetId(), hostState(h), fmt.Sprint(engines(h)), count(h.GetReservations()), count(a.GetWaiting()),
			booked(a, resource.Memory), optional(resource.Memory, memoryInUse(used, h.GetEnginesUnreclaimableBytes())), headroom(h),
			booked(a, resource.CPU), optional(resource.CPU, used.CpuMillis),
			otherBooked(a), since(h.GetLastSyncTime(), now),
		}
		if out.wide() {
			s := h.GetSample()
			if s == nil {
				s = &bursarv1.HostSample{}
			}
			row = append(row, share(resource.Memory, s.MemoryAvailableBytes, s.MemoryTotalBytes), share(resource.CPU, s.CpuUsedMillis, s.CpuTotalMillis),
				load(s), labelsText(h.GetLabels()), h.GetAddress(), h.GetVersion())
		}
		rows = append(rows, append(row, hostNote(h, now)))
	}
	out.table(header, rows)
}

func printHost(out *printer, h *bursarv1.Host, overUses []string) {
	now := time.Now()
	s := h.GetSample()
	out.facts(append([]string{
		"id", h.GetId(),
		"state", hostState(h),
		"takes no engines", unavailableText(h, now),
		"also calls for it", h.GetStranger(),
		"same machine as", strings.Join(h.GetSameMachine(), ", "),
		"may not have", strings.Join(h.GetCut(), "; "),
		"note", strings.Join(h.GetSample().GetNotes(), "; "),
		"not accepted yet", count(h.GetUnaccepted()),
		"address", h.GetAddress(),
		"labels", labelsText(h.GetLabels()),
		"agent", h.GetVersion(),
		"registered", ago(h.GetRegisterTime(), now),
		"last report", ago(h.GetLastSyncTime(), now),
		"engines", fmt.Sprint(engines(h)),
		"reservations", count(h.GetReservations()),
		"engines use", usesText(h.GetEnginesMeasured(), h.GetEnginesUnreclaimableBytes()),
		"headroom", headroom(h),
	}, overUses...)...)
	if s != nil {
		out.printf("\nmeasured %s\n", ago(s.GetSampleTime(), now))
		facts := []string{
			"  memory free", share(resource.Memory, s.MemoryAvailableBytes, s.MemoryTotalBytes),
			"  kept for the machine", optional(resource.Memory, s.MemorySafetyBytes),
			"  cpu used", share(resource.CPU, s.CpuUsedMillis, s.CpuTotalMillis),
			"  load", load(s),
			"  memory stalls", percent(s.MemorySomeAvg10, s.MemoryFullAvg10),
			"  swap used", share(resource.Memory, s.SwapUsedBytes, s.SwapTotalBytes),
			"  huge pages free", hugePages(s),
			"  " + outOfMemory, killedText(s),
			"  processes", fmt.Sprint(s.GetProcesses()),
		}
		for _, d := range s.GetDisks() {
			facts = append(facts, "  disk "+printable(d.GetPath()), diskText(d))
		}
		out.facts(facts...)
		for _, source := range slices.Sorted(maps.Keys(s.GetDegraded())) {
			out.facts("  odd or not measured: "+printable(source), s.GetDegraded()[source])
		}
	}
	out.printf("\n")
	out.table(accountHeader(), accountRows([]*bursarv1.Account{h.GetAccount()}))
}

// engines is how many engines a host has. A reservation has none yet.
func engines(h *bursarv1.Host) int64 { return h.GetAccount().GetAllocations() - h.GetReservations() }

// liveText is how many engines and reservations a host has: "2 engines, 1 reservation".
func liveText(h *bursarv1.Host) string {
	text := counted(int(engines(h)), "engine", "engines")
	if n := h.GetReservations(); n > 0 {
		text += ", " + counted(int(n), "reservation", "reservations")
	}
	return text
}

// hugePages writes how much of the memory for huge pages is free; empty if there is none.
func hugePages(s *bursarv1.HostSample) string {
	if s.GetHugePagesTotalBytes() == 0 {
		return ""
	}
	return share(resource.Memory, s.HugePagesFreeBytes, s.HugePagesTotalBytes)
}

// killedText writes how many processes the kernel has killed for lack of memory; empty for none.
func killedText(s *bursarv1.HostSample) string {
	if s.GetOutOfMemoryKills() == 0 {
		return ""
	}
	return counted(int(s.GetOutOfMemoryKills()), "process", "processes") + " since the boot"
}

// diskText writes what is free in a work directory: "12GiB free of 100GiB, 99 % of its inodes, too
// little".
func diskText(d *bursarv1.DiskSample) string {
	text := quantityText(resource.Memory, d.GetFreeBytes()) + " free of " + quantityText(resource.Memory, d.GetTotalBytes())
	if d.GetTotalBytes() == 0 {
		text = "not known"
	}
	if total := d.GetTotalInodes(); total > 0 {
		text += fmt.Sprintf(", %d %% of its inodes", int64(float64(d.GetFreeInodes())/float64(total)*100))
	}
	if d.GetShort() {
		text += ", too little"
	}
	return text
}

// booked writes how much is used and reserved of what may be given away.
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
	limit := pick(orEmpty(a.GetLimit()))
	if limit != nil {
		most := *limit
		if protected := pick(orEmpty(a.GetProtected())); protected != nil {
			most -= *protected
		}
		limit = &most
	}
	return share(dimension, plus(pick(orEmpty(a.GetUsed())), pick(orEmpty(a.GetReserved()))), limit)
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

func orEmpty(r *bursarv1.Resource) *bursarv1.Resource {
	if r == nil {
		return &bursarv1.Resource{}
	}
	return r
}

func headroom(h *bursarv1.Host) string { return optional(resource.Memory, h.HeadroomBytes) }

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
