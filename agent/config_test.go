package agent_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/internal/discovery/consul"
	"github.com/bursar/bursar/internal/yamlfile"
)

func TestZeroConfigIsGood(t *testing.T) {
	if err := (agent.Config{}).Validate(); err != nil {
		t.Error(err)
	}
}

// decodeYAML reads a file as the command does.
func decodeYAML(t *testing.T, text string, into any) {
	t.Helper()
	doc, err := yamlfile.Parse("agent.yaml", []byte(text))
	if err == nil {
		err = doc.Decode(into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestConfigFromYAML(t *testing.T) {
	text := `
hostId: node-7
address: node-7.example.com
labels: {rack: 010, disk: 1.10}
coordinators: ["http://10.0.0.1:7070"]
socket: /run/x/agent.sock
socketMode: 0660
socketGroup: hadoop
loopbackListen: 127.0.0.1:7071
loopbackTrusted: true
trustedUsers: [hadoop, 1001]
stateDir: /var/lib/x
capacity: {memory: 64GiB, cpu: 16, instances: 50, gpu: 2}
protected: {memory: 2GiB, cpu: 500m}
safety: 1GiB
cgroup: /engines.slice
tick: 2s
patience: 20s
`
	var got agent.Config
	decodeYAML(t, text, &got)
	want := agent.Config{
		HostID: "node-7", Address: "node-7.example.com", Labels: map[string]string{"rack": "010", "disk": "1.10"},
		Coordinators: []string{"http://10.0.0.1:7070"},
		Socket:       "/run/x/agent.sock", SocketMode: "0660", SocketGroup: "hadoop", LoopbackListen: "127.0.0.1:7071", LoopbackTrusted: true,
		TrustedUsers: []string{"hadoop", "1001"}, StateDir: "/var/lib/x",
		Capacity:  map[string]string{"memory": "64GiB", "cpu": "16", "instances": "50", "gpu": "2"},
		Protected: map[string]string{"memory": "2GiB", "cpu": "500m"}, Safety: "1GiB", Cgroup: "/engines.slice",
		Tick: 2 * time.Second, Patience: 20 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}

func TestConsulIsAskedWhereItsSectionSaysAnything(t *testing.T) {
	for name, test := range map[string]struct {
		config       agent.Config
		discovery    string
		coordinators int
	}{
		"nothing said":   {agent.Config{}, "static", 1},
		"a list":         {agent.Config{Coordinators: []string{"http://a:1", "http://b:1"}}, "static", 2},
		"a section":      {agent.Config{Consul: consul.Config{Address: "127.0.0.1:8500"}}, "consul", 0},
		"said in a word": {agent.Config{Discovery: "consul"}, "consul", 0},
	} {
		got, err := test.config.WithDefaults()
		if err != nil || got.Discovery != test.discovery || len(got.Coordinators) != test.coordinators {
			t.Errorf("%s: %s, %q, %v", name, got.Discovery, got.Coordinators, err)
		}
	}
}

func TestWrongConfigNamesItsField(t *testing.T) {
	for _, test := range []struct {
		field  string
		config agent.Config
	}{
		{"hostId", agent.Config{HostID: "a b"}},
		{"discovery", agent.Config{Discovery: "dns"}},
		{"discovery", agent.Config{Discovery: "static", Consul: consul.Config{Address: "127.0.0.1:8500"}}},
		{"coordinators", agent.Config{Discovery: "consul", Coordinators: []string{"http://127.0.0.1:7070"}}},
		{"consul.tls.key", agent.Config{Consul: consul.Config{TLS: consul.TLS{Cert: "/c.pem"}}}},
		{"hostId", agent.Config{HostID: strings.Repeat("a", 254)}},
		{"address", agent.Config{Address: strings.Repeat("a", 513)}},
		{"labels", agent.Config{Labels: map[string]string{"": "x"}}},
		{"labels", agent.Config{Labels: map[string]string{"rack": "a\nb"}}},
		{"socket", agent.Config{Socket: "agent.sock"}},
		{"socket", agent.Config{Socket: "/" + strings.Repeat("a", 107)}},
		{"socketMode", agent.Config{SocketMode: "rw"}},
		{"socketMode", agent.Config{SocketMode: "7777"}},
		{"stateDir", agent.Config{StateDir: "state"}},
		{"loopbackListen", agent.Config{LoopbackListen: "0.0.0.0:7071", LoopbackTrusted: true}},
		{"loopbackListen", agent.Config{LoopbackListen: "localhost", LoopbackTrusted: true}},
		{"loopbackListen", agent.Config{LoopbackListen: "127.0.0.1:7071"}},
		{"capacity.memory", agent.Config{Capacity: map[string]string{"memory": "-1"}}},
		{"capacity.memory", agent.Config{Capacity: map[string]string{"memory": "many"}}},
		{"capacity.custom", agent.Config{Capacity: map[string]string{"gp u": "1"}}},
		{"protected.cpu", agent.Config{Protected: map[string]string{"cpu": "1.5.5"}}},
		{"safety", agent.Config{Safety: "some"}},
		{"tick", agent.Config{Tick: time.Millisecond}},
		{"tick", agent.Config{Tick: time.Hour}},
		{"patience", agent.Config{Patience: -1}},
	} {
		var wrong *agent.ConfigError
		err := test.config.Validate()
		if !errors.As(err, &wrong) || wrong.Field != test.field || wrong.Want == "" {
			t.Errorf("%s: %v", test.field, err)
		}
		if _, err := agent.New(test.config, agent.Deps{}); !errors.As(err, &wrong) {
			t.Errorf("New with a wrong %s: %v", test.field, err)
		}
	}
}

func TestAgentNeedsACoordinator(t *testing.T) {
	if _, err := agent.New(agent.Config{}, agent.Deps{}); err == nil {
		t.Error("made without clients")
	}
}

func TestCapacityIsTheLeastOfTheConfiguredAndTheMeasured(t *testing.T) {
	s := newSubject(t)
	s.config.Capacity = map[string]string{"memory": "1MiB", "cpu": "100000", "gpu": "2"}
	s.config.Protected = map[string]string{"memory": "100KiB"}
	s.config.Labels = map[string]string{"rack": "a"}
	s.start()
	q := s.coordinator.host
	cpus := q.GetCapacity().GetCpuMillis()
	if q.GetCapacity().GetMemoryBytes() != mib || cpus <= 0 || cpus >= 100_000_000 || q.GetCapacity().Instances != nil ||
		q.GetCapacity().GetCustom()["gpu"] != 2 || q.GetProtected().GetMemoryBytes() != 100<<10 || q.GetLabels()["rack"] != "a" || q.GetVersion() != "test" {
		t.Errorf("registered: %v", q)
	}
	if name, err := os.Hostname(); err != nil || q.GetAddress() != name {
		t.Errorf("address %q, want %q", q.GetAddress(), name)
	}
}
