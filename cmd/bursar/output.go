package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Forms of output.
const (
	outputTable = "table"
	outputWide  = "wide"
	outputJSON  = "json"
)

func checkOutput(output string) error {
	switch output {
	case outputTable, outputWide, outputJSON:
		return nil
	}
	return usagef("--output %q: want table, wide or json", output)
}

// printer prints what one invocation has to say: data to standard output, all else to standard
// error. Any number of goroutines may use it.
type printer struct {
	// out is standard output for everything that this program writes itself.
	out stdout
	// err is standard error.
	err *os.File
	// output is the form of the data.
	output string
}

func newPrinter(out, err *os.File) *printer { return &printer{out: stdout{file: out}, err: err} }

func (p *printer) isJSON() bool { return p.output == outputJSON }

func (p *printer) wide() bool { return p.output == outputWide }

// Write writes data. The error is the first one that there was.
func (p *printer) Write(text []byte) (int, error) { return p.out.write(text, p.isJSON()) }

// stdout is the file of standard output, for a program that writes to it itself.
func (p *printer) stdout() *os.File { return p.out.file }

// lost is the first error of writing data; nil: all was written.
func (p *printer) lost() error { return p.out.lost() }

// printf writes data. If it cannot, the command ends with that error.
func (p *printer) printf(format string, args ...any) {
	fmt.Fprintf(p, format, printables(args)...)
}

// sayf writes a line for the user to standard error.
func (p *printer) sayf(format string, args ...any) {
	fmt.Fprintf(harmless{to: p.err}, format+"\n", printables(args)...)
}

// warn prints warnings.
func (p *printer) warn(warnings []string) {
	for _, warning := range warnings {
		p.sayf("bursar: warning: %s", warning)
	}
}

// print writes the message as JSON if the user wants that, and else calls table.
func (p *printer) print(msg proto.Message, table func()) error {
	if !p.isJSON() {
		table()
		return p.lost()
	}
	text, err := jsonText(msg)
	if err != nil {
		return err
	}
	return p.printJSON(text)
}

// printJSON writes JSON with line breaks and indentation.
func (p *printer) printJSON(text []byte) error {
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return fmt.Errorf("indent: %w", err)
	}
	_, err := fmt.Fprintln(p, indented.String())
	return err //nolint:wrapcheck // names the file
}

// printLine writes the message as JSON in one line.
func (p *printer) printLine(msg proto.Message) error {
	text, err := jsonText(msg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p, "%s\n", text)
	return err //nolint:wrapcheck // names the file
}

// jsonText is the API's JSON without the blanks that protojson varies on purpose. It has zeros,
// empty texts and empty lists, so that a script need not know what may be missing. A quantity that
// is not set, or a part that is not there, is left out: that is not the same as zero.
func jsonText(msg proto.Message) ([]byte, error) {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(withWeights(msg))
	if err != nil {
		return nil, fmt.Errorf("marshal: %w", err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, fmt.Errorf("compact: %w", err)
	}
	// A list has all pages. Within a text the quotes would have backslashes.
	return bytes.ReplaceAll(compact.Bytes(), []byte(`,"nextPageToken":""`), nil), nil
}

// withWeights gives rules that name no weight the one that they count with. A zero would say that
// their requests get nothing.
func withWeights(msg proto.Message) proto.Message {
	if len(rulesOf(msg)) == 0 {
		return msg
	}
	msg = proto.Clone(msg)
	for _, q := range rulesOf(msg) {
		q.Weight = max(1, q.GetWeight())
	}
	return msg
}

// rulesOf are the rules that a message shows.
func rulesOf(msg proto.Message) (rules []*bursarv1.Quota) {
	switch msg := msg.(type) {
	case *bursarv1.Quota:
		return []*bursarv1.Quota{msg}
	case *bursarv1.QuotaServiceListResponse:
		return msg.GetQuotas()
	case *bursarv1.ApplyResponse:
		return slices.Concat(msg.GetAdded(), msg.GetChanged(), msg.GetDeleted())
	case *bursarv1.ClusterServiceWatchResponse:
		if q := msg.GetQuota(); q != nil {
			return []*bursarv1.Quota{q}
		}
	}
	return nil
}

// withField adds a field to a JSON object that has others.
func withField(object []byte, name string, value []byte) []byte {
	more := slices.Concat([]byte(`,"`+name+`":`), value, []byte("}"))
	return append(bytes.TrimSuffix(slices.Clone(object), []byte("}")), more...)
}

// table prints rows below a header, without borders. A column that is empty in every row is left
// out.
func (p *printer) table(header []string, rows [][]string) {
	var used []int // columns
	for i := range header {
		if slices.ContainsFunc(rows, func(row []string) bool { return i < len(row) && row[i] != "" }) {
			used = append(used, i)
		}
	}
	pick := func(cells []string) table.Row {
		row := make(table.Row, len(used))
		for to, from := range used {
			if row[to] = ""; from < len(cells) {
				row[to] = printable(cells[from])
			}
		}
		return row
	}
	w := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	w.SetStyle(style)
	w.AppendHeader(pick(header))
	for _, row := range rows {
		w.AppendRow(pick(row))
	}
	for line := range strings.Lines(w.Render()) {
		fmt.Fprintln(p, strings.TrimRight(line, " \n"))
	}
}

// facts prints names and values, one pair a line. Those without a value are left out.
func (p *printer) facts(namesAndValues ...string) {
	width := 0
	for pair := range slices.Chunk(namesAndValues, 2) {
		if pair[1] != "" {
			width = max(width, len(pair[0]))
		}
	}
	for pair := range slices.Chunk(namesAndValues, 2) {
		if pair[1] != "" {
			fmt.Fprintf(p, "%-*s  %s\n", width, printable(pair[0]), printable(pair[1]))
		}
	}
}
