package host

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestEngines runs the scripts in testdata/engines. Their commands:
//
//	run       adds processes, or changes them, one on a line: PID PARENT and differences
//	          from the default in start (ticks after boot; PID), session and group (1), own and
//	          children (ticks of CPU time; 0), anon, file, shared and swap (MiB; 0), state (S),
//	          threads (1), image (0: as if it could not be told), pss and swappss (MiB; absent),
//	          lazy (MiB that MADV_FREE gave back; 0), highest (VmHWM, MiB), uid (1000)
//	end       removes processes, by PID
//	write     writes the named file; a line "---" begins the next, the first line of each of
//	          which is its name
//	remove    removes files or directories, by name
//	measure   after=SECONDS and ID=PID, ID=PID/START, ID=PID@CGROUP, or ID=PID@CGROUP:UID (a
//	          cgroup that the caller did not make, and the engine's user) for each engine: prints
//	          what they use
//	own       prints the own cgroup of each process
func TestEngines(t *testing.T) {
	datadriven.Walk(t, "testdata/engines", func(t *testing.T, path string) {
		t.Helper()
		machine := newMachine(t)
		machine.write("proc/self/mountinfo", "")
		meter := machine.meter(Options{})
		processes := map[int32]fakeProcess{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			machine.TB = t
			switch d.Cmd {
			case "run":
				for line := range strings.SplitSeq(strings.TrimSpace(d.Input), "\n") {
					pid, _, _ := strings.Cut(line, " ")
					process := processes[number32(t, pid)].changed(t, line)
					processes[process.pid] = process
					machine.run(process)
				}
			case "end":
				for pid := range strings.FieldsSeq(d.Input) {
					delete(processes, number32(t, pid))
					machine.remove("proc/" + pid)
				}
			case "write":
				for file := range strings.SplitSeq(d.Input, "---\n") {
					name, data, _ := strings.Cut(file, "\n")
					machine.write(name, data)
				}
			case "remove":
				for name := range strings.FieldsSeq(d.Input) {
					machine.remove(name)
				}
			case "own":
				return own(machine, meter, d)
			case "measure":
				return measure(machine, meter, d)
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return ""
		})
	})
}

func measure(machine *machine, meter *Meter, d *datadriven.TestData) string {
	var engines []Engine
	for _, arg := range d.CmdArgs {
		if arg.Key == "after" {
			machine.now = machine.now.Add(time.Duration(number32(machine.TB, arg.Vals[0])) * time.Second)
			continue
		}
		root, cgroup, _ := strings.Cut(arg.Vals[0], "@")
		cgroup, user, given := strings.Cut(cgroup, ":")
		pid, start, found := strings.Cut(root, "/")
		if !found {
			start = pid
		}
		engine := Engine{
			ID: arg.Key, PID: number32(machine.TB, pid), StartTime: uint64(number32(machine.TB, start)), Cgroup: cgroup, Given: given,
		}
		if given {
			engine.User = new(uint32(number32(machine.TB, user)))
		}
		engines = append(engines, engine)
	}
	var out strings.Builder
	for _, usage := range meter.Engines(machine.Context(), engines) {
		out.WriteString(usage.ID + ": ")
		if usage.Alive {
			out.WriteString("alive")
		} else {
			out.WriteString("ended")
		}
		fmt.Fprintf(&out, ", processes %d", usage.Processes)
		if usage.MemoryBytes > 0 {
			fmt.Fprintf(&out, ", memory %s, unreclaimable %s", size(&usage.MemoryBytes), size(&usage.UnreclaimableBytes))
		}
		if usage.UnsureBytes > 0 {
			fmt.Fprintf(&out, " (unsure %s)", size(&usage.UnsureBytes))
		}
		if usage.PeakBytes > usage.UnreclaimableBytes {
			fmt.Fprintf(&out, ", at most %s", size(&usage.PeakBytes))
		}
		if usage.SwappedBytes > 0 {
			fmt.Fprintf(&out, ", swapped %s", size(&usage.SwappedBytes))
		}
		fmt.Fprintf(&out, ", cpu %dm", usage.CPUMillis)
		if usage.Err != nil {
			fmt.Fprintf(&out, ", error: %v", usage.Err)
		}
		out.WriteByte('\n')
	}
	return strings.ReplaceAll(out.String(), machine.root, "")
}

func own(machine *machine, meter *Meter, d *datadriven.TestData) string {
	var out strings.Builder
	for _, arg := range d.CmdArgs {
		cgroup, err := meter.OwnCgroup(number32(machine.TB, arg.Key))
		switch {
		case err != nil:
			fmt.Fprintf(&out, "%s: error: %v\n", arg.Key, err)
		case cgroup == "":
			fmt.Fprintf(&out, "%s: none of its own\n", arg.Key)
		default:
			fmt.Fprintf(&out, "%s: %s\n", arg.Key, cgroup)
		}
	}
	return strings.ReplaceAll(out.String(), machine.root, "")
}

// fakeProcess is a process that a test machine writes below proc/PID.
type fakeProcess struct {
	pid, parent, session, group int32
	start, own, children        uint64
	state                       string
	threads                     int32
	image                       uint64
	uid                         uint64
	// In KiB.
	anon, file, shared, swap int64
	// highest is VmHWM (0: the current RAM); lazy is the memory given back with MADV_FREE.
	highest, lazy int64
	// pss is -1 for a process that may not be inspected; swappss is the part in swap.
	pss, swappss int64
}

// changed applies the settings of a script's line.
func (p fakeProcess) changed(t *testing.T, line string) fakeProcess {
	t.Helper()
	fields := strings.Fields(line)
	pid := number32(t, fields[0])
	if p.pid == 0 {
		p = fakeProcess{pid: pid, start: uint64(pid), session: 1, group: 1, state: "S", threads: 1, uid: 1000, pss: -1}
	}
	p.parent = number32(t, fields[1])
	for _, setting := range fields[2:] {
		name, value, _ := strings.Cut(setting, "=")
		if name == "state" {
			p.state = value
			continue
		}
		amount := number32(t, value)
		switch name {
		case "start":
			p.start = uint64(amount)
		case "session":
			p.session = amount
		case "group":
			p.group = amount
		case "own":
			p.own = uint64(amount)
		case "children":
			p.children = uint64(amount)
		case "threads":
			p.threads = amount
		case "image":
			p.image = uint64(amount)
		case "uid":
			p.uid = uint64(amount)
		case "anon":
			p.anon = int64(amount) << 10
		case "file":
			p.file = int64(amount) << 10
		case "shared":
			p.shared = int64(amount) << 10
		case "swap":
			p.swap = int64(amount) << 10
		case "highest":
			p.highest = int64(amount) << 10
		case "lazy":
			p.lazy = int64(amount) << 10
		case "swappss":
			p.swappss = int64(amount) << 10
		case "pss":
			p.pss = int64(amount) << 10
		default:
			t.Fatalf("unknown setting %s", name)
		}
	}
	return p
}

// run writes the process's files.
func (m *machine) run(p fakeProcess) {
	m.Helper()
	directory := fmt.Sprintf("proc/%d/", p.pid)
	m.write(directory+"stat", fmt.Sprintf(
		"%d (engine (%d) x) %s %d %d %d 0 -1 4194304 0 0 0 0 %d 0 %d 0 20 0 %d 0 %d 0 0 18446744073709551615 %d 0 %d\n",
		p.pid, p.pid, p.state, p.parent, p.group, p.session, p.own, p.children, p.threads, p.start, p.image, p.image))
	m.write(directory+"status", fmt.Sprintf(
		"Name:\tengine\nTgid:\t%[1]d\nUid:\t%[2]d\t%[2]d\t%[2]d\t%[2]d\nVmRSS:\t%[3]d kB\nRssAnon:\t%[4]d kB\nRssFile:\t%[5]d kB\nRssShmem:\t%[6]d kB\nVmSwap:\t%[7]d kB\nVmHWM:\t%[8]d kB\nHugetlbPages:\t4194304 kB\n",
		p.pid, p.uid, p.anon+p.file+p.shared, p.anon, p.file, p.shared, p.swap, max(p.highest, p.anon+p.file+p.shared)))
	if p.pss >= 0 {
		m.write(directory+"smaps_rollup", fmt.Sprintf("Pss: 0 kB\nPss_Anon: %d kB\nPss_File: 7 kB\nPss_Shmem: 0 kB\nLazyFree: %d kB\nPrivate_Hugetlb: 4194304 kB\nSwap: 0 kB\nSwapPss: %d kB\n", p.pss, p.lazy, p.swappss))
	}
}

func number32(tb testing.TB, text string) int32 {
	tb.Helper()
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		tb.Fatal(err)
	}
	return int32(value)
}
