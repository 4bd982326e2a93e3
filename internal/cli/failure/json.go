package failure

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/render"
)

// errorObject is what -o json prints of an error: {"error": {…}}, in one line of stderr, so that a
// program can tell it from other lines. The first fields are always there.
type errorObject struct {
	// Message is the first line that is printed without -o json, ExitCode the program's.
	Message  string `json:"message"`
	ExitCode int    `json:"exitCode"`
	// Notes are the lines after it, such as the lack of each account. Hints name remedies.
	Notes []string `json:"notes"`
	Hints []string `json:"hints"`
	// Code is the API's, such as "resource_exhausted", if the error is the answer to a call.
	Code string `json:"code,omitempty"`
	// The API's details of a refusal, as their messages.
	InsufficientResources json.RawMessage `json:"insufficientResources,omitempty"`
	InvalidField          json.RawMessage `json:"invalidField,omitempty"`
}

// describeJSON is describe for programs. Its text comes from describe, so that both say the same.
func (r *Reporter) describeJSON(err error) []byte {
	var text bytes.Buffer
	r.describe(&text, err)
	lines := slices.Collect(strings.Lines(text.String()))
	if len(lines) == 0 {
		return nil
	}
	f := errorObject{ExitCode: ExitCode(err), Notes: []string{}, Hints: []string{}}
	f.Message = strings.TrimSpace(strings.TrimPrefix(lines[0], "bursar: "))
	for _, line := range lines[1:] {
		if hint, isHint := strings.CutPrefix(line, "hint: "); isHint {
			f.Hints = append(f.Hints, strings.TrimSpace(hint))
		} else {
			f.Notes = append(f.Notes, strings.TrimRight(strings.TrimPrefix(line, "  "), "\n"))
		}
	}
	if call, ok := errors.AsType[*connect.Error](err); ok {
		f.Code = call.Code().String()
	}
	if insufficient, ok := client.Insufficient(err); ok {
		f.InsufficientResources, _ = render.JSONText(insufficient) // the notes say it all, too
	}
	if field, ok := client.InvalidField(err); ok {
		f.InvalidField, _ = render.JSONText(field)
	}
	var line bytes.Buffer
	out := json.NewEncoder(&line)
	out.SetEscapeHTML(false)
	if err := out.Encode(map[string]errorObject{"error": f}); err != nil { // nothing in it can fail
		return text.Bytes()
	}
	return line.Bytes()
}
