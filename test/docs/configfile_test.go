package docs

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/internal/yamlfile"
)

// installed is the directory of the packages' configuration files.
const installed = "../../deploy/package/"

func TestInstalledConfigurationIsFresh(t *testing.T) {
	for _, p := range programs(t) {
		file, want := installed+p.Name+".yaml", ConfigFile(p)
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is stale; go test ./test/docs -update writes it (-want +got):\n%s", file, diff)
		}
	}
}

func TestInstalledConfigurationSaysNothing(t *testing.T) {
	for _, p := range programs(t) {
		for line := range strings.SplitSeq(ConfigFile(p), "\n") {
			if line != "" && !strings.HasPrefix(line, "#") {
				t.Errorf("%s: %q is in force", p.Name, line)
			}
		}
	}
}

// If every line is uncommented, a file is valid, equals the defaults, and has the same fields as
// the reference.
func TestInstalledConfigurationUncommentedIsTheDefault(t *testing.T) {
	var readAgent agent.Config
	var readCoordinator coordinator.Config
	configs := map[string]any{"agent": &readAgent, "coordinator": &readCoordinator}
	for _, p := range programs(t) {
		text := uncommented(ConfigFile(p))
		doc, err := yamlfile.Parse(p.Name+".yaml", []byte(text))
		if err == nil {
			err = doc.Decode(configs[p.Name])
		}
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		for _, f := range p.Fields {
			if line := strings.Repeat("  ", f.Depth) + f.Name + ":"; !strings.Contains("\n"+text, "\n"+line) {
				t.Errorf("%s: no line for %s", p.Name, f.Path)
			}
			if f.Meaning == "" && !f.Section && len(f.Elements) == 0 {
				t.Errorf("%s: nothing is said of %s", p.Name, f.Path)
			}
		}
	}
	ofAgent, err := agent.Config{}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	same(t, ofAgent, settledAgent(t, readAgent))
	same(t, coordinator.Config{}.WithDefaults(), readCoordinator.WithDefaults())
	if err := readCoordinator.Validate(); err != nil {
		t.Error(err)
	}
}

func settledAgent(t *testing.T, config agent.Config) agent.Config {
	t.Helper()
	settled, err := config.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return settled
}

// same compares two configurations; an empty list equals a missing one.
func same(t *testing.T, want, got any) {
	t.Helper()
	empty := cmp.FilterValues(func(a, b any) bool {
		x, y := reflect.ValueOf(a), reflect.ValueOf(b)
		return x.IsValid() && y.IsValid() && x.Kind() == y.Kind() && (x.Kind() == reflect.Map || x.Kind() == reflect.Slice) && x.Len() == 0 && y.Len() == 0
	}, cmp.Ignore())
	if diff := cmp.Diff(want, got, empty); diff != "" {
		t.Errorf("%T uncommented (-default +got):\n%s", want, diff)
	}
}

func programs(t *testing.T) []Program {
	t.Helper()
	list, err := Programs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// uncommented removes the # before each field's name. The indentation of the section is between #
// and name.
func uncommented(file string) string {
	return regexp.MustCompile(`(?m)^#((?:  )*[a-zA-Z]+:)`).ReplaceAllString(file, "$1")
}
