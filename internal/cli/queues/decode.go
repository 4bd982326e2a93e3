package queues

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/providers/yarn"
	"github.com/bursar/bursar/resource"
)

func queuesDecodeCommand(c *cmdline.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "decode -f FILE",
		Short: "Show how bursar reads a saved answer of a scheduler",
		Long: `Decode reads a saved answer of /ws/v1/cluster/scheduler and shows one entry for
each queue and partition, as bursar understands it. It needs no server and no
cluster. Use it to compare with the cluster's own pages, and send its output in
if they differ.

With -o json it prints {"queues": [...]}, each with path, partition, limit, used
and guaranteed (memoryBytes, cpuMillis, custom), absoluteCapacity and
absoluteMaxCapacity (percent), applications, pending, active, maxApplications
and state. A figure that the answer does not have is left out.`,
		Example: `  curl -H 'Accept: application/json' \
    http://rm:8088/ws/v1/cluster/scheduler | bursar queues decode -f -
  bursar queues decode -f scheduler.json -o json`,
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	file := cmd.Flags().StringP("file", "f", "", "the file; - is standard input")
	_ = cmd.MarkFlagFilename("file", "json")
	cmd.RunE = func(*cobra.Command, []string) error {
		if *file == "" {
			return failure.Usagef("no file: want -f FILE, or -f - for standard input")
		}
		name, in, err := openInput(c, *file)
		if err != nil {
			return err
		}
		defer in.Close()
		scheduler, err := yarn.Decode(in)
		if wrong, ok := errors.AsType[*yarn.AnswerError](err); ok {
			return &failure.ExitError{Code: failure.ExitData, Err: fmt.Errorf("%s: %w: want the JSON that /ws/v1/cluster/scheduler of a ResourceManager in charge answers", name, wrong)}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if doubts := scheduler.Doubts(); doubts != "" {
			c.Sayf("%s: %s", name, doubts)
		}
		return printDecoded(c.Printer, scheduler)
	}
	return cmd
}

// open opens a file, or standard input if the name is "-".
func openInput(c *cmdline.Invocation, file string) (name string, in io.ReadCloser, err error) {
	if file == "-" {
		return "stdin", io.NopCloser(c.In), nil
	}
	opened, err := regularfile.OpenInput(file)
	return file, opened, cmdline.Unusable(err) //nolint:wrapcheck // it names the file
}

// decodedQueue is the form of decode's JSON. A field is nil if the answer does not have it.
type decodedQueue struct {
	Path                string           `json:"path"`
	Partition           string           `json:"partition"`
	Limit               *decodedQuantity `json:"limit,omitempty"`
	Used                *decodedQuantity `json:"used,omitempty"`
	Guaranteed          *decodedQuantity `json:"guaranteed,omitempty"`
	AbsoluteCapacity    *float64         `json:"absoluteCapacity,omitempty"`
	AbsoluteMaxCapacity *float64         `json:"absoluteMaxCapacity,omitempty"`
	Applications        *int32           `json:"applications,omitempty"`
	Pending             *int32           `json:"pending,omitempty"`
	Active              *int32           `json:"active,omitempty"`
	MaxApplications     *int32           `json:"maxApplications,omitempty"`
	State               string           `json:"state,omitempty"`
}

type decodedQuantity struct {
	MemoryBytes *int64           `json:"memoryBytes,omitempty"`
	CPUMillis   *int64           `json:"cpuMillis,omitempty"`
	Instances   *int64           `json:"instances,omitempty"`
	Custom      map[string]int64 `json:"custom,omitempty"`
}

// decodedOf returns nil for nil.
func decodedOf(v *resource.Vector) *decodedQuantity {
	m := vectorMessage(v)
	if m == nil {
		return nil
	}
	return &decodedQuantity{m.MemoryBytes, m.CpuMillis, m.Instances, m.GetCustom()}
}

func vectorMessage(v *resource.Vector) *bursarv1.Resource {
	if v == nil {
		return nil
	}
	return convert.VectorToProto(*v)
}

func printDecoded(out *render.Printer, s *yarn.Scheduler) error {
	if out.IsJSON() {
		list := struct {
			Queues []decodedQueue `json:"queues"`
		}{make([]decodedQueue, len(s.Entries))}
		for i, e := range s.Entries {
			list.Queues[i] = decodedQueue{
				Path: e.Path, Partition: e.Partition, Limit: decodedOf(e.Limit), Used: decodedOf(e.Used), Guaranteed: decodedOf(e.Guaranteed),
				AbsoluteCapacity: e.AbsoluteCapacity, AbsoluteMaxCapacity: e.AbsoluteMaxCapacity,
				Applications: e.Applications, Pending: e.Pending, Active: e.Active, MaxApplications: e.MaxApplications, State: e.State,
			}
		}
		text, err := json.MarshalIndent(list, "", "  ")
		if err != nil {
			return fmt.Errorf("marshal: %w", err)
		}
		_, err = fmt.Fprintf(out, "%s\n", text)
		return err //nolint:wrapcheck // names the file
	}
	out.Printf("%s scheduler, %s\n", s.Kind, render.Counted(len(s.Entries), "entry", "entries"))
	var rows [][]string
	for _, e := range s.Entries {
		q := &bursarv1.Queue{Applications: e.Applications, Pending: e.Pending, Active: e.Active, MaxApplications: e.MaxApplications}
		row := []string{
			spelling.Name(e.Path, ",@"), spelling.Name(e.Partition, ",@"), e.State, render.LimitText(vectorMessage(e.Limit)), render.QuantitiesText(vectorMessage(e.Used)), render.QuantitiesText(vectorMessage(e.Guaranteed)),
			render.PercentText(e.AbsoluteCapacity), render.PercentText(e.AbsoluteMaxCapacity), render.ApplicationsText(q),
		}
		if out.Wide() {
			row = append(row, render.QuantitiesText(vectorMessage(e.Reserved)), e.DefaultPartition)
		}
		rows = append(rows, row)
	}
	out.Table([]string{"QUEUE", "PARTITION", "STATE", "LIMIT", "USED", "GUARANTEED", "CAPACITY", "MAX CAPACITY", "APPS", "RESERVED", "DEFAULT PARTITION"}, rows)
	return nil
}
