package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/bursar/bursar/integrations/linkis/check"
	"github.com/bursar/bursar/internal/spelling"
)

// Forms of output.
const (
	outputTable = "table"
	outputWide  = "wide"
	outputJSON  = "json"
)

func checkOutput(output string) error {
	if slices.Contains([]string{outputTable, outputWide, outputJSON}, output) {
		return nil
	}
	return fmt.Errorf("--output %q: want table, wide or json", output)
}

// saysJSON reports whether a command line asks for JSON, even if it cannot be understood as a
// whole.
func saysJSON(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "-ojson", "-o=json", "--output=json":
			return true
		case "-o", "--output":
			return i+1 < len(args) && args[i+1] == outputJSON
		}
	}
	return false
}

// print writes the report at once.
func (i *invocation) print(report *check.Report) error {
	text := []byte(asTable(report))
	if i.output == outputJSON {
		var err error
		if text, err = json.MarshalIndent(report, "", "  "); err != nil {
			return fmt.Errorf("marshal: %w", err)
		}
		text = append(visible(text), '\n')
	}
	if _, err := i.Out.Write(text); err != nil {
		return fmt.Errorf("the output is lost: %w", err)
	}
	return nil
}

// asTable is the report with columns. A column that is empty in every row is left out: that of the
// marks can be.
func asTable(report *check.Report) string {
	header, from := table.Row{" ", "ABOUT", "WHAT", "IN LINKIS", "ON BURSAR"}, 0
	if report.Attention == 0 {
		from = 1
	}
	w := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	w.SetStyle(style)
	w.AppendHeader(header[from:])
	for _, f := range report.Findings {
		mark := ""
		if f.Attention {
			mark = "!"
		}
		w.AppendRow(table.Row{mark, f.Area, cell(f.Subject), cell(f.Now), cell(f.Bursar)}[from:])
	}
	var text strings.Builder
	for line := range strings.Lines(w.Render()) {
		text.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	fmt.Fprintf(&text, "%s, %s\n", counted(len(report.Findings), "difference", "differences"), counted(report.Attention, "needs attention", "need attention"))
	return text.String()
}

// cell is a text of somebody else, in one line, that does nothing to a terminal.
func cell(text string) string {
	return spelling.Printable(strings.Join(strings.Fields(text), " "), '?')
}

func counted(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + several
}

// visible escapes characters that a terminal would act on. The JSON means the same.
func visible(text []byte) []byte {
	var out []byte
	for _, r := range string(text) {
		switch {
		case strconv.IsPrint(r) || r == '\n':
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// errorJSON is an error as -o json prints it, and as the program bursar does.
type errorJSON struct {
	Message  string   `json:"message"`
	ExitCode int      `json:"exitCode"`
	Notes    []string `json:"notes"`
	Hints    []string `json:"hints"`
}

// report prints an error: with -o json in one line, so that programs can tell it from other lines.
func (i *invocation) report(err error) {
	e, ok := errors.AsType[*exitError](err)
	if !ok {
		e = &exitError{code: exitCode(err)}
	}
	if i.output == outputJSON {
		var line bytes.Buffer
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		text := errorJSON{Message: err.Error(), ExitCode: e.code, Notes: append([]string{}, e.notes...), Hints: append([]string{}, e.hints...)}
		if err := encoder.Encode(map[string]errorJSON{"error": text}); err == nil { // nothing in it can fail
			_, _ = i.Err.Write(visible(line.Bytes()))
			return
		}
	}
	fmt.Fprintf(i.Err, "%s: %s\n", Name, cell(err.Error()))
	for _, note := range e.notes {
		fmt.Fprintf(i.Err, "  %s\n", cell(note))
	}
	for _, hint := range e.hints {
		fmt.Fprintf(i.Err, "hint: %s\n", cell(hint))
	}
}
