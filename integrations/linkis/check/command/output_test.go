package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bursar/bursar/integrations/linkis/check"
)

const hostile = "forged\x1b[2J\u009b31m\rforged\nforged\u202e\U000e0001"

// Whoever writes into Linkis's tables writes what the report shows.
func TestNothingInLinkissTablesMovesTheCursor(t *testing.T) {
	report := check.NewReport([]check.Finding{{Area: "ecm", Subject: hostile, Now: hostile, Bursar: hostile}})
	for output, lines := range map[string]int{outputTable: 3, outputJSON: 12} {
		var out bytes.Buffer
		i := &invocation{Streams: Streams{Out: &out}, output: output}
		if err := i.print(report); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if strings.ContainsAny(text, "\x1b\u009b\r\u202e\U000e0001") || strings.Count(text, "\n") != lines || !strings.Contains(text, "forged") {
			t.Errorf("%s: %q", output, text)
		}
		if output != outputJSON {
			continue
		}
		var read check.Report
		if err := json.Unmarshal(out.Bytes(), &read); err != nil || read.Findings[0].Now != hostile {
			t.Errorf("JSON is read back as %v, %v", read.Findings, err)
		}
	}
}

func TestNothingInAnErrorMovesTheCursor(t *testing.T) {
	for _, output := range []string{outputTable, outputJSON} {
		var said bytes.Buffer
		i := &invocation{Streams: Streams{Err: &said}, output: output}
		i.report(&exitError{code: exitConfig, err: errors.New(hostile), notes: []string{hostile}, hints: []string{hostile}})
		if text := said.String(); strings.ContainsAny(text, "\x1b\u009b\r\u202e") || !strings.Contains(text, "forged") {
			t.Errorf("%s: %q", output, text)
		}
	}
}
