package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/test/otlp"
	"github.com/bursar/bursar/test/proc"
)

// server is a `bursar dev`, and what was asked of it.
type server struct {
	t       *testing.T
	dir     string
	process *proc.Process
	log     bytes.Buffer // read it after end
	address string
	host    string            // the name of its host
	names   map[string]string // of $NAME in calls: ids of allocations
}

func start(t *testing.T, collector string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "contract") //nolint:usetesting // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &server{t: t, dir: dir, names: make(map[string]string)}
	cmd := exec.Command(program, "dev", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data"), "--agent-socket", s.socket(),
		"--log-level", "info", "--log-format", "json")
	cmd.Env = append(s.environment(), "OTEL_EXPORTER_OTLP_ENDPOINT="+collector, "OTEL_BSP_SCHEDULE_DELAY=100")
	cmd.Stderr = &s.log
	s.process = proc.Start(t, cmd)
	proc.Until(t, patience, 10*time.Millisecond, "bursar dev is up", func() bool {
		return strings.Contains(s.process.Output.String(), "in another terminal")
	})
	for line := range strings.Lines(s.process.Output.String()) {
		switch fields := strings.Fields(line); {
		case len(fields) < 2:
		case fields[0] == "coordinator":
			s.address = fields[1]
		case fields[0] == "host":
			s.host = fields[1]
		}
	}
	s.names["HOST"] = s.host
	// An engine that ends once it has been measured: what is shown of it does not depend on how
	// fast this machine is.
	s.names["ENGINE"] = `until "` + program + `" allocations "$BURSAR_ALLOCATION_ID" -o json | grep -q '"measuredPeak"'; do sleep 0.1; done; exit 3`
	return s
}

func (s *server) socket() string { return filepath.Join(s.dir, "agent.sock") }

func (s *server) environment() []string {
	return []string{"HOME=" + s.dir, "PATH=" + os.Getenv("PATH"), "USER=alice", "BURSAR_ADDR=" + s.address, "BURSAR_AGENT=" + s.socket()}
}

// patience is how long a command or a start may take.
const patience = time.Minute

// bursar runs a command.
func (s *server) bursar(arguments ...string) proc.Result {
	s.t.Helper()
	return proc.Run(s.t, patience, func(cmd *exec.Cmd) { cmd.Env, cmd.Dir = s.environment(), s.dir }, program, s.named(arguments)...)
}

func (s *server) named(texts []string) (list []string) {
	for _, text := range texts {
		list = append(list, os.Expand(text, func(name string) string { return s.names[name] }))
	}
	return list
}

// masks are what differs from run to run and from machine to machine.
var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ][\d:.]+\d(Z|[-+]\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-hjkmnp-tv-z]{13}\b`), "ID"},
	{regexp.MustCompile(`\d+(\.\d+)?[KMGT]iB`), "SIZE"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\d{5,}`), "N"},
	{regexp.MustCompile(`\x{a0}`), " "}, // with which protobuf keeps its words from being compared
}

func (s *server) masked(text string) string {
	text = strings.ReplaceAll(text, s.dir, "DIR")
	text = regexp.MustCompile(`\b`+regexp.QuoteMeta(s.host)+`\b`).ReplaceAllString(text, "HOST")
	for _, mask := range masks {
		text = mask.pattern.ReplaceAllString(text, mask.with)
	}
	return text
}

// do sends a body to a path of the coordinator, or of the agent.
func (s *server) do(toAgent bool, path, body string) (int, []byte) {
	s.t.Helper()
	client, url := &http.Client{}, s.address+path
	if toAgent {
		url = "http://agent" + path
		client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.socket())
		}}
	}
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(s.t.Context(), method, url, strings.NewReader(s.named([]string{body})[0]))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, content
}

// failure is an error as Connect sends it, without the bytes of its details.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details []struct {
		Type  string `json:"type"`
		Debug any    `json:"debug"`
	} `json:"details,omitempty"`
}

// calls is the script of TestServer: the server, the call, and the name of the allocation in the
// answer.
var calls = []struct{ name, procedure, body string }{
	{"", "QuotaService/Put", `{"quota":{"selector":{"user":"bob"},"limit":{"memoryBytes":"1048576"}}}`},
	{"", "QuotaService/Put", `{}`},
	{"", "QuotaService/Put", `{"quota":{"selector":{"user":"bob"},"limit":{"external":[{"kind":"yarn","path":"*","memoryBytes":"1"}]}}}`},
	{"", "QuotaService/Delete", `{"selector":{"user":"nobody"}}`},
	{"", "QuotaService/Apply", `{"quotas":[{"selector":{"a b":"*"}}]}`},
	{"A", "AllocationService/Allocate", `{"labels":{"user":"alice"},"resource":{"memoryBytes":"1048576"},"requestId":"r1"}`},
	{"", "AllocationService/Allocate", `{"labels":{"user":"alice"},"resource":{"memoryBytes":"2097152"},"requestId":"r1"}`},
	{"", "AllocationService/Allocate", `{}`},
	{"", "AllocationService/Allocate", `{"labels":{"user":"alice"},"resource":{"memoryBytes":"-1"}}`},
	{"", "AllocationService/Allocate", `{"labels":{"user":"alice"},"resource":{"memoryBytes":"1048576","custom":{"gpu":"-3"}}}`},
	{"", "AllocationService/Allocate", `{"labels":{"user":"a=b"},"resource":{"memoryBytes":"1048576"}}`},
	{"", "AllocationService/Allocate", `{"labels":{"user":"bob"},"resource":{"memoryBytes":"2097152"}}`},
	{"", "AllocationService/Allocate", `{"labels":{"user":"alice"},"resource":{"memoryBytes":"1125899906842624"}}`},
	{"", "AllocationService/Allocate", `{"labels":{"user":"alice"},"resource":{"custom":{"gpu":"1"}}}`},
	{"", "AllocationService/Allocate", `{"labels":{"user":"alice"},"resource":{"memoryBytes":"1","external":[{"kind":"yarn","path":"root.a","memoryBytes":"1"}]}}`},
	{"", "AllocationService/Allocate", `{"labels":{"user":"alice"},"resource":{"memoryBytes":"1048576"},"host":{"id":"nowhere"}}`},
	{"", "AllocationService/Confirm", `{"id":"$A","unknown":1}`},
	{"", "AllocationService/Confirm", `{"id":"$A"}`},
	{"", "AllocationService/Confirm", `{"id":"$A","address":"10.0.0.1:1","entitled":{"memoryBytes":"2097152"}}`},
	{"", "AllocationService/Confirm", `{"id":"$A","address":"10.0.0.1:1"}`},
	{"", "AllocationService/Renew", `{"id":"$A"}`},
	{"", "AllocationService/Resize", `{"id":"$A","entitled":{"memoryBytes":"1125899906842624"}}`},
	{"", "AllocationService/Stop", `{"id":"$A","reason":"enough"}`},
	{"", "AllocationService/Release", `{"id":"$A","reason":"done"}`},
	{"", "AllocationService/Confirm", `{"id":"$A","address":"10.0.0.1:1"}`},
	{"", "AllocationService/Renew", `{"id":"$A"}`},
	{"", "AllocationService/Get", `{"id":"zzz"}`},
	{"", "AllocationService/Get", `{"id":"0000000000001"}`},
	{"", "AllocationService/List", `{"pageToken":"?"}`},
	{"", "AllocationService/Cancel", `{"requestId":"never was"}`},
	{"", "AllocationService/Explain", `{"id":"0000000000001"}`},
	{"B", "AllocationService/Allocate", `{"labels":{"user":"alice"},"resource":{"memoryBytes":"1048576"}}`},
	{"", "HostService/Get", `{"id":"nowhere"}`},
	{"", "HostService/Cordon", `{"hostId":"$HOST","reason":"a test"}`},
	{"", "AllocationService/Allocate", `{"labels":{"user":"alice"},"resource":{"memoryBytes":"1048576"}}`},
	{"", "HostService/Uncordon", `{"hostId":"$HOST"}`},
	{"", "HostService/Drain", `{"hostId":"nowhere"}`},
	{"", "HostService/Deregister", `{"hostId":"$HOST"}`},
	{"", "HostService/Register", `{"hostId":""}`},
	{"", "HostService/Sync", `{"hostId":"nowhere"}`},
	{"", "QueueService/Get", `{"kind":"yarn","cluster":"prod","path":"root"}`},
	{"", "QueueService/PutProvider", `{"provider":{"kind":"slurm","cluster":"prod"}}`},
	{"", "QueueService/PutProvider", `{"provider":{"kind":"yarn","cluster":"prod","settings":{"adresses":"x"}}}`},
	{"", "QueueService/DeleteProvider", `{"kind":"yarn","cluster":"prod"}`},
	{"", "ClusterService/Status", `{}`},
	{"", "ClusterService/Audit", `{}`},
	{"", "NoService/Nothing", `{}`},
	{"", "AllocationService/Nothing", `{}`},
	{"", "AllocationService/Get", `{"id":`},
}

// TestServer keeps what a `bursar dev` answers to a script of calls and commands, and what it then
// says of itself: metrics, spans and the audit log.
func TestServer(t *testing.T) {
	receiver := otlp.Start(t)
	s := start(t, receiver.URL)
	golden(t, "errors.txt", s.errors())
	golden(t, "commands.txt", s.commands())
	golden(t, "json.txt", s.shapes())
	golden(t, "metrics.txt", s.metrics())
	s.process.Stop(patience)
	golden(t, "spans.txt", spans(receiver.Spans()))
	golden(t, "audit.txt", s.audit())
}

// errors plays the script, and writes down each answer that is an error.
func (s *server) errors() string {
	var text strings.Builder
	for _, call := range calls {
		for _, toAgent := range []bool{false, true} {
			if toAgent && call.procedure != "AllocationService/Get" && call.procedure != "NoService/Nothing" && call.body != "{}" {
				continue // the agent passes on the rest
			}
			status, content := s.do(toAgent, "/bursar.v1."+call.procedure, call.body)
			if status == http.StatusOK {
				var granted struct{ Allocation struct{ ID string } }
				if err := json.Unmarshal(content, &granted); err != nil {
					s.t.Errorf("%s: %v", call.procedure, err)
				}
				s.names[call.name] = granted.Allocation.ID
				continue
			}
			who := map[bool]string{true: "agent", false: "coordinator"}[toAgent]
			fmt.Fprintf(&text, "%s %s %s\n  %d ", who, call.procedure, call.body, status)
			var wrong failure
			if json.Unmarshal(content, &wrong) != nil || wrong.Code == "" {
				fmt.Fprintf(&text, "%s\n", s.masked(strings.TrimSpace(string(content))))
				continue
			}
			fmt.Fprintf(&text, "%s: %s\n", wrong.Code, s.masked(wrong.Message))
			for _, detail := range wrong.Details {
				debug, _ := json.Marshal(detail.Debug)
				fmt.Fprintf(&text, "  %s %s\n", detail.Type, s.masked(string(debug)))
			}
		}
	}
	return text.String()
}

// commands writes down how commands end that go wrong, and what they say.
func (s *server) commands() string {
	var text strings.Builder
	for _, line := range []string{
		"nothing", "allocate", "allocate -m 1", "allocate -m 8000TiB -l user=alice", "allocate -m 1MiB -l user=bob --wait 1ms", "allocate -m x -l user=alice",
		"allocations nothing", "allocations 0000000000001", "confirm 0000000000001 --pid 1", "release 0000000000001", "renew 0000000000001",
		"resize 0000000000001 -m 1MiB", "stop 0000000000001", "cancel nothing", "explain 0000000000001", "hosts nothing", "host cordon nothing",
		"host drain nothing", "host remove $HOST", "quota delete user=nobody", "quota apply -f nothing.yaml", "quota set user==", "queues yarn:nothing",
		"provider delete yarn:nothing", "provider check yarn:nothing", "run -m 256MiB -l user=alice -- sh -c $ENGINE", "run -m 1MiB -l user=alice -- /nothing",
		"status -o yaml", "status --addr :::", "status --addr 127.0.0.1:1", "status --token-file nothing", "agent --check --config nothing.yaml",
		"coordinator --check --config nothing.yaml", "store info --data-dir nothing", "watch --after 999999999",
	} {
		result := s.bursar(strings.Fields(line)...)
		fmt.Fprintf(&text, "%s\n  %d %s\n", line, result.Code, strings.ReplaceAll(strings.TrimSpace(s.masked(result.Stderr)), "\n", "\n     "))
	}
	return text.String()
}

// shapes writes down the fields of what commands print as JSON, and their types.
func (s *server) shapes() string {
	var text strings.Builder
	for _, line := range []string{
		"status", "hosts", "hosts $HOST", "allocations", "allocations --ended", "allocations $B", "quotas", "queues", "providers", "audit", "version",
		"explain -m 8000TiB -l user=alice", "quota set user=carol --memory 1GiB", "quota delete user=carol", "allocate -m 1MiB -l user=alice --request-id r9",
		"cancel r9", "release $B", "host cordon $HOST", "host uncordon $HOST",
	} {
		result := s.bursar(append(strings.Fields(line), "-o", "json")...)
		fields := make(map[string]bool)
		for documents := json.NewDecoder(strings.NewReader(result.Stdout)); ; {
			var document any
			err := documents.Decode(&document)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				s.t.Errorf("%s: %v: %s%s", line, err, result.Stdout, result.Stderr)
				break
			}
			shape("", document, fields)
		}
		fmt.Fprintf(&text, "%s\n  exit %d\n", line, result.Code)
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			fmt.Fprintf(&text, "  %s\n", s.masked(field))
		}
	}
	return text.String()
}

// shape collects the paths of a value. Measurements depend on the machine: it only notes that they
// are there.
func shape(path string, value any, fields map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			// Of the engine here: on a slow machine it may get more CPU time than it is entitled
			// to. The history has a size once it was counted.
			if name == "overUse" || name == "history" {
				continue
			}
			if name == "sample" || name == "measured" || name == "measuredPeak" {
				fields[path+"."+name+" …"] = true
				continue
			}
			shape(path+"."+name, inner, fields)
		}
	case []any:
		for _, inner := range value {
			shape(path+"[]", inner, fields)
		}
	default:
		fields[path+" "+kind(value)] = true
	}
}

func kind(value any) string {
	switch value.(type) {
	case string:
		return "text"
	case float64:
		return "number"
	case bool:
		return "bool"
	default:
		return "null"
	}
}
