package agent

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/bursar/bursar/providers/host"
)

// What an engine does to be measured in part, such as cgroups without end, does not fill the log.
func TestAnEngineThatIsMeasuredInPartIsToldOfOnce(t *testing.T) {
	var out bytes.Buffer
	a := &Agent{
		log: slog.New(slog.NewTextHandler(&out, nil)),
	}
	var e engine
	told := func() int { return strings.Count(out.String(), "could not be measured in full") }
	inPart := host.Usage{Alive: true, Processes: 1, Err: errors.New("too many")}
	for range 3 {
		a.usage(t.Context(), &e, host.Engine{ID: "e"}, inPart)
	}
	if told() != 1 {
		t.Errorf("logged %d times:\n%s", told(), out.String())
	}
	a.usage(t.Context(), &e, host.Engine{ID: "e"}, host.Usage{Alive: true, Processes: 1})
	a.usage(t.Context(), &e, host.Engine{ID: "e"}, inPart)
	if told() != 2 {
		t.Errorf("again, after it was measured in full: logged %d times:\n%s", told(), out.String())
	}
}
