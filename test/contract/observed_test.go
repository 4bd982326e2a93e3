package contract

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/bursar/bursar/test/otlp"
)

// metrics writes down the series of coordinator and agent: their help, type and labels. Values are
// left out, and so are the runtime's own series, those of the host, which depend on the machine,
// and those of the history, which are there once it was counted.
func (s *server) metrics() string {
	series := regexp.MustCompile(`^(bursar_\w+?)(_bucket|_sum|_count)?(\{.*\})? `)
	label := regexp.MustCompile(`(\w+)="`)
	var text strings.Builder
	for _, toAgent := range []bool{false, true} {
		_, content := s.do(toAgent, "/metrics", "")
		kept := make(map[string]bool)
		for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
			line := lines.Text()
			switch match := series.FindStringSubmatch(line); {
			case strings.Contains(line, "bursar_agent_host_"), strings.Contains(line, "bursar_agent_degraded"),
				strings.Contains(line, "bursar_history_allocations"), strings.Contains(line, "bursar_history_bytes"):
			case strings.HasPrefix(line, "# HELP bursar_"), strings.HasPrefix(line, "# TYPE bursar_"):
				fields := strings.SplitN(line, " ", 4)
				kept[fmt.Sprintf("%s %s %s", fields[2], fields[1], fields[3])] = true
			case match != nil:
				var names []string
				for _, name := range label.FindAllStringSubmatch(match[3], -1) {
					names = append(names, name[1])
				}
				kept[fmt.Sprintf("%s%s{%s}", match[1], match[2], strings.Join(names, ","))] = true
			}
		}
		fmt.Fprintf(&text, "==== %s\n%s\n", map[bool]string{true: "agent", false: "coordinator"}[toAgent],
			strings.Join(slices.Sorted(maps.Keys(kept)), "\n"))
	}
	return text.String()
}

// spans writes down the kinds of spans with all attributes that any of that name has. It leaves out
// the error of an Attach: either end may be the first to end the stream.
func spans(list []otlp.Span) string {
	kept := make(map[string]map[string]bool)
	for _, span := range list {
		name := fmt.Sprintf("%s %s %s", span.Service, strings.TrimPrefix(span.GetKind().String(), "SPAN_KIND_"), span.GetName())
		if kept[name] == nil {
			kept[name] = make(map[string]bool)
		}
		for key := range span.Attributes {
			kept[name][key] = key != "error.type" || !strings.HasSuffix(name, "/Attach")
		}
		for key := range span.Resource {
			if strings.HasPrefix(key, "service.") {
				kept[name][key] = true
			}
		}
		for _, event := range span.GetEvents() {
			kept[name]["event "+event.GetName()] = true
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		maps.DeleteFunc(kept[name], func(_ string, shown bool) bool { return !shown })
		fmt.Fprintf(&text, "%s\n  %s\n", name, strings.Join(slices.Sorted(maps.Keys(kept[name])), "\n  "))
	}
	return text.String()
}

// audit writes down the records of the audit log, which is in the log here.
func (s *server) audit() string {
	var text strings.Builder
	for lines := bufio.NewScanner(bytes.NewReader(s.log.Bytes())); lines.Scan(); {
		var line struct {
			Record map[string]any `json:"record"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			s.t.Errorf("%s: %v", lines.Text(), err)
		}
		if line.Record == nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(line.Record)) {
			fmt.Fprintf(&text, "%s=%s ", key, s.masked(fmt.Sprint(line.Record[key])))
		}
		text.WriteString("\n")
	}
	return text.String()
}
