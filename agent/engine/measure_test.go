package engine

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/providers/host"
)

// What an engine does to be measured in part, such as cgroups without end, does not fill the log.
func TestAnEngineThatIsMeasuredInPartIsToldOfOnce(t *testing.T) {
	var out bytes.Buffer
	s := looked(t, Options{Log: slog.New(slog.NewTextHandler(&out, nil))}, tracker.Snapshot{})
	pass := Pass{Engines: []host.Engine{{ID: "e"}}, engines: []*engine{{}}}
	told := func() int { return strings.Count(out.String(), "could not be measured in full") }
	inPart := host.Usage{Alive: true, Processes: 1, Err: errors.New("too many")}
	for range 3 {
		s.Usages(t.Context(), pass, []host.Usage{inPart})
	}
	if told() != 1 {
		t.Errorf("logged %d times:\n%s", told(), out.String())
	}
	s.Usages(t.Context(), pass, []host.Usage{{Alive: true, Processes: 1}})
	s.Usages(t.Context(), pass, []host.Usage{inPart})
	if told() != 2 {
		t.Errorf("again, after it was measured in full: logged %d times:\n%s", told(), out.String())
	}
}
