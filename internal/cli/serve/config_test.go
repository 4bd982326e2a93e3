package serve

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/label"
)

// configFile writes a configuration.
func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestNumbersInATextNeedNoQuotes(t *testing.T) {
	var host agent.Config
	file := configFile(t, "hostId: 010\nsocketMode: 0660\nlabels: {zone: 010, rack: 1.10, y: 0x1F, z: 1_000}\ncapacity: {gpu: 010}\nengines: {policies: [{match: {engineType: 3.10}}]}\n")
	if _, err := loadConfig(file, "", "BURSAR_AGENT", &host); err != nil {
		t.Fatal(err)
	}
	want := agent.Config{
		HostID: "010", SocketMode: "0660", Labels: map[string]string{"zone": "010", "rack": "1.10", "y": "0x1F", "z": "1_000"},
		Capacity: map[string]string{"gpu": "010"}, Engines: agent.EnginesConfig{Policies: []agent.PolicyConfig{{Match: map[string]string{"engineType": "3.10"}}}},
	}
	if diff := cmp.Diff(want, host); diff != "" {
		t.Error(diff)
	}
	var books coordinator.Config
	file = configFile(t, "labels: {defaults: {code: 0755}, derived: [{key: a, from: b, default: 0755, values: {3.10: 0x10, true: 1e3}}], required: [007]}\n")
	if _, err := loadConfig(file, "", "BURSAR_COORDINATOR", &books); err != nil {
		t.Fatal(err)
	}
	rules := label.Rules{
		Defaults: map[string]string{"code": "0755"}, Required: []string{"007"},
		Derived: []label.Derivation{{Key: "a", From: "b", Default: "0755", Values: map[string]string{"3.10": "0x10", "true": "1e3"}}},
	}
	if diff := cmp.Diff(rules, books.Labels); diff != "" {
		t.Error(diff)
	}
}

func TestAVariableThatSetsNothingIsWarnedOf(t *testing.T) {
	t.Setenv("BURSAR_COORDINATOR_LISTN", "127.0.0.1:1")
	t.Setenv("BURSAR_COORDINATOR_LIMITS_QUEUE", "100")
	t.Setenv("BURSAR_COORDINATOR_WHATEVER", "")
	var books coordinator.Config
	loaded, err := loadConfig("", configFile(t, ""), "BURSAR_COORDINATOR", &books)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	loaded.warn(slog.New(slog.NewTextHandler(&out, nil)))
	for i, want := range []string{
		`level=WARN msg="a variable sets nothing" variable=BURSAR_COORDINATOR_LISTN want=BURSAR_COORDINATOR_LISTEN`,
		`variable=BURSAR_COORDINATOR_WHATEVER want="BURSAR_COORDINATOR_ and a field in capitals"`, "",
	} {
		if line := strings.Split(out.String(), "\n")[i]; !strings.HasSuffix(line, want) || want == "" && line != "" {
			t.Errorf("%s: want %s", line, want)
		}
	}
}

func TestExampleConfigurationsAreRight(t *testing.T) {
	t.Setenv("BURSAR_COORDINATOR_LIMITS_QUEUE", "100")
	t.Setenv("BURSAR_AGENT_COORDINATORS", "http://127.0.0.1:7070")
	var books coordinator.Config
	loaded, err := loadConfig("../../../examples/coordinator.yaml", "", "BURSAR_COORDINATOR", &books)
	if err != nil {
		t.Fatal(err)
	}
	if err := books.Validate(); err != nil {
		t.Error(loaded.explain(err))
	}
	if _, err := books.Labels.Compile(); err != nil {
		t.Error(loaded.explain(err))
	}
	if books.Limits.Queue != 100 || books.Labels.Derived[0].Key != "tenant" {
		t.Errorf("read %+v", books)
	}
	var host agent.Config
	if loaded, err = loadConfig("../../../examples/agent.yaml", "", "BURSAR_AGENT", &host); err != nil {
		t.Fatal(err)
	}
	if err := host.Validate(); err != nil {
		t.Error(loaded.explain(err))
	}
	if host.HostID != "vm-1" || host.Capacity["gpu"] != "2" || len(host.Coordinators) != 1 {
		t.Errorf("read %+v", host)
	}
}

func TestVariablesAreNamedAfterFields(t *testing.T) {
	for name, want := range map[string]string{
		"listen": "LISTEN", "dataDir": "DATA_DIR", "reservationTTL": "RESERVATION_TTL", "hostId": "HOST_ID", "syncBytes": "SYNC_BYTES",
	} {
		if got := capitals(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
