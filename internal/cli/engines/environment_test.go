package engines

import (
	"slices"
	"testing"

	"github.com/bursar/bursar/internal/cli/launches"
)

// What a command is started with has no secret of this program, unless --env names it.
func TestSecretsAreNotInherited(t *testing.T) {
	secrets := []string{
		"BURSAR_TOKEN", "CONSUL_HTTP_TOKEN", "CONSUL_HTTP_AUTH", "PGPASSWORD", "BURSAR_COORDINATOR_STORE",
		"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
	}
	for _, name := range append([]string{"JOB_SETTING"}, secrets...) {
		t.Setenv(name, "x")
	}
	for _, name := range secrets {
		if slices.Contains(inherited(), name+"=x") {
			t.Errorf("%s is inherited", name)
		}
	}
	if !slices.Contains(inherited(), "JOB_SETTING=x") {
		t.Error("another variable is not inherited")
	}
	f := detachFlags{allEnv: true, env: []string{"BURSAR_TOKEN", "CONSUL_HTTP_TOKEN=y"}}
	req, err := f.launch("", []string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"BURSAR_TOKEN": "x", "CONSUL_HTTP_TOKEN": "y", "PGPASSWORD": "", "JOB_SETTING": "x"} {
		if got := req.GetEnvironment()[name]; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if pairs, err := launches.NamedVariables([]string{"PGPASSWORD", "A=b=c"}); err != nil || !slices.Equal(pairs, []string{"PGPASSWORD=x", "A=b=c"}) {
		t.Errorf("%q, %v", pairs, err)
	}
	if _, err := launches.NamedVariables([]string{"=x"}); err == nil {
		t.Error("a variable without a name is accepted")
	}
}
