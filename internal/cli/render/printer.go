package render

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
	OutputTable = "table"
	OutputWide  = "wide"
	OutputJSON  = "json"
)

// Printer writes the output of one invocation: data to standard output, all else to standard
// error. Any number of goroutines may use it.
type Printer struct {
	// out is standard output for everything that this program writes itself.
	out stdout
	// Err is standard error.
	Err *os.File
	// Form is the form of the data.
	Form string
}

// NewPrinter returns a printer that writes data to out and all else to err.
func NewPrinter(out, err *os.File) *Printer { return &Printer{out: stdout{file: out}, Err: err} }

// IsJSON reports whether the user wants JSON.
func (p *Printer) IsJSON() bool { return p.Form == OutputJSON }

// Wide reports whether the user wants all columns.
func (p *Printer) Wide() bool { return p.Form == OutputWide }

// IsForm reports whether a text names a form of the data.
func IsForm(text string) bool { return text == OutputTable || text == OutputWide || text == OutputJSON }

// Write writes data. The error is the first one that there was.
func (p *Printer) Write(text []byte) (int, error) { return p.out.write(text, p.IsJSON()) }

// Stdout is the file of standard output, for a program that writes to it itself.
func (p *Printer) Stdout() *os.File { return p.out.file }

// Lost is the first error of writing data; nil: all was written.
func (p *Printer) Lost() error { return p.out.lost() }

// Printf writes data. If it cannot, the command ends with that error.
func (p *Printer) Printf(format string, args ...any) {
	fmt.Fprintf(p, format, Printables(args)...)
}

// Sayf writes a line for the user to standard error.
func (p *Printer) Sayf(format string, args ...any) {
	fmt.Fprintf(Harmless{To: p.Err}, format+"\n", Printables(args)...)
}

// Warn prints warnings.
func (p *Printer) Warn(warnings []string) {
	for _, warning := range warnings {
		p.Sayf("bursar: warning: %s", warning)
	}
}

// Print writes the message as JSON if the user wants that, and else calls table.
func (p *Printer) Print(msg proto.Message, table func()) error {
	if !p.IsJSON() {
		table()
		return p.Lost()
	}
	text, err := JSONText(msg)
	if err != nil {
		return err
	}
	return p.PrintJSON(text)
}

// PrintJSON writes JSON with line breaks and indentation.
func (p *Printer) PrintJSON(text []byte) error {
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return fmt.Errorf("indent: %w", err)
	}
	_, err := fmt.Fprintln(p, indented.String())
	return err //nolint:wrapcheck // names the file
}

// PrintLine writes the message as JSON in one line.
func (p *Printer) PrintLine(msg proto.Message) error {
	text, err := JSONText(msg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p, "%s\n", text)
	return err //nolint:wrapcheck // names the file
}

// JSONText is the API's JSON without the blanks that protojson varies on purpose. It has zeros,
// empty texts and empty lists, so that a script need not know which fields may be missing. A
// quantity that is not set, or a part that is not there, is left out: that is not the same as
// zero.
func JSONText(msg proto.Message) ([]byte, error) {
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

// WithField adds a field to a JSON object that has others.
func WithField(object []byte, name string, value []byte) []byte {
	more := slices.Concat([]byte(`,"`+name+`":`), value, []byte("}"))
	return append(bytes.TrimSuffix(slices.Clone(object), []byte("}")), more...)
}

// Table prints rows below a header, without borders. A column that is empty in every row is left
// out.
func (p *Printer) Table(header []string, rows [][]string) {
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
				row[to] = Printable(cells[from])
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

// Facts prints names and values, one pair a line. Those without a value are left out.
func (p *Printer) Facts(namesAndValues ...string) {
	width := 0
	for pair := range slices.Chunk(namesAndValues, 2) {
		if pair[1] != "" {
			width = max(width, len(pair[0]))
		}
	}
	for pair := range slices.Chunk(namesAndValues, 2) {
		if pair[1] != "" {
			fmt.Fprintf(p, "%-*s  %s\n", width, Printable(pair[0]), Printable(pair[1]))
		}
	}
}
