// Command bench measures the budgets of design §17, and prints a line for each:
//
//	name value unit (ratio R, budget B, ok|MISSED)
//
// The ratio compares the value with another of the same run: an echo, another size, or the same
// without load. A line without such a value is compared only with its budget, and its ratio is
// relative to that. Lines without a budget explain the lines that have one. workloads/ holds
// complete workloads, so that a peer can run them too; budgets.yaml holds the thresholds and the
// source of each. A missed budget is no failure: the machine may be slow or busy.
//
// Servers run in separate processes: bin/bursar as shipped (-bursar), a real PostgreSQL and a real
// Consul (`make bench` provides them), and this binary again for the ledger alone, for the echo and
// for simulated agents. One goroutine prints, and waits for everything that it has started.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/bursar/bursar/bench/performance"
)

// suite is a group of lines that are measured together.
type suite struct {
	name string
	run  func(ctx context.Context, r *run) error
}

func suites() []suite {
	return []suite{
		{"allocs", allocs},
		{"ledger", ledgerSuite},
		{"closed", closedLoop},
		{"burst", bursts},
		{"deep", deepPending},
		{"wire", wireSuite},
		{"hop", hopSuite},
		{"start", startSuite},
		{"agent", agentSuite},
		{"state", stateSuite},
		{"stores", storesSuite},
		{"history", historySuite},
		{"forward", forwardSuite},
		{"fleet", fleetSuite},
		{"scale", scaleSuite},
		{"queues", queuesSuite},
		{"failover", failoverSuite},
		{"takeover", takeoverSuite},
		{"neighbours", neighboursSuite},
		{"watchers", watchersSuite},
		{"remote", remoteSuite},
		{"conditions", conditionsSuite},
		{"peers-closed", peersClosed},
		{"peers-deep", peersDeep},
		{"peers-burst", peersBurst},
	}
}

// run is one run of this program.
type run struct {
	*report

	short bool
	// history is the number of rows of the history suite; 0: the number of its workload.
	history int
	full    bool // the suite failover at the design's size
	// attacks matches the attacks of the neighbours suite to run.
	attacks *regexp.Regexp
	bursar  string // the binary under test
	before  string // another version of this program, for the suites ledger and conditions; empty: none
	dir     string // directory for files
	log     io.Writer

	// Other agents to measure beside ours; empty: none.
	nodeExporter, telegraf string

	// Schedulers of other projects to measure beside ours, by name, and the file for the results;
	// empty: none.
	peers   map[string]string
	results string
	version string // of the binary under test
}

func main() {
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) //nolint:forbidigo // the one place
}

func execute(args []string, out, log io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(log)
	name := flags.String("name", "", "run only the suites whose name matches this regular expression: "+names())
	short := flags.Bool("short", false, "a few seconds in all: shows that everything runs, the numbers mean little")
	history := flags.Int("history", 0, "rows of the suite history, written to both stores at the same time (default: as its workload says, one store after the other; the design's size is 30000000)")
	size := flags.String("size", "", "size of the suite failover: as its workload says, or full, the design's, which takes hours")
	attack := flags.String("attack", "", "run only the attacks of the suite neighbours whose name matches this regular expression")
	bursar := flags.String("bursar", "bin/bursar", "the binary to measure; `make build` makes it")
	before := flags.String("before", "", "this program in another version: in the suites ledger and conditions it takes turns with this one; `make bench-before` builds it")
	dir := flags.String("dir", "", "directory on a real disk for stores (default: a new one where temporary files go)")
	nodeExporter := flags.String("node-exporter", "", "a node_exporter to compare the agent with; `make bench` builds it")
	telegraf := flags.String("telegraf", "", "a telegraf with procstat to compare the agent with; `make bench` builds it")
	yunikorn := flags.String("yunikorn", "", "YuniKorn core as a peer; `make bench-peers` builds it")
	nomad := flags.String("nomad", "", "Nomad as a peer; `make bench-peers` builds it")
	results := flags.String("results", "", "write what the suites peers-… measured into this file, for -draw; what others measured is kept there")
	version := flags.String("version", "devel", "the version that results name")
	draw := flags.String("draw", "", "only write the tables of this page, and its plots, from the results file next to the plots")
	child := flags.String("child", "", "what this process is for another one")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 64
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if *child != "" {
		return exitCode(serveChild(ctx, *child, os.Stdin, out), log)
	}
	if *size != "" && *size != "full" {
		return exitCode(fmt.Errorf("-size: %q: want full", *size), log)
	}
	if *draw != "" {
		return exitCode(performance.Draw(*draw), log)
	}
	only, err := regexp.Compile(*name)
	if err != nil {
		return exitCode(fmt.Errorf("-name: %w", err), log)
	}
	attacks, err := regexp.Compile(*attack)
	if err != nil {
		return exitCode(fmt.Errorf("-attack: %w", err), log)
	}
	r := &run{
		short: *short, history: *history, full: *size == "full", attacks: attacks, bursar: *bursar, before: *before, dir: *dir, log: log, nodeExporter: *nodeExporter, telegraf: *telegraf,
		peers: map[string]string{performance.YuniKorn: *yunikorn, performance.Nomad: *nomad}, results: *results, version: *version,
	}
	return exitCode(measure(ctx, only, r, out), log)
}

func exitCode(err error, log io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(log, "bench:", err)
	return 1
}

func names() string {
	var list []string
	for _, s := range suites() {
		list = append(list, s.name)
	}
	return strings.Join(list, ", ")
}

// measure runs the suites one after the other.
func measure(ctx context.Context, only *regexp.Regexp, r *run, out io.Writer) (err error) {
	if r.report, err = newReport(out); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(r.dir, "bursar-bench-")
	if err != nil {
		return fmt.Errorf("a place to work: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r.dir = dir
	for _, s := range suites() {
		if !only.MatchString(s.name) {
			continue
		}
		began := time.Now()
		if err := s.run(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(r.log, "%s took %s\n", s.name, time.Since(began).Round(100*time.Millisecond))
	}
	r.close(only.MatchString)
	return nil
}

// rounds returns the number of repetitions; -short makes it 2, of which only one counts.
func (r *run) rounds(n int) int {
	if r.short {
		return min(n, 2)
	}
	return n
}

// size returns the number of things in a workload; -short makes it a twentieth.
func (r *run) size(n int) int {
	if r.short {
		return (n + 19) / 20
	}
	return n
}

// period returns a duration of a workload; -short makes it a fifth.
func (r *run) period(d time.Duration) time.Duration {
	if r.short {
		return d / 5
	}
	return d
}
