package engines

import (
	"os"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/cli/storefacts"
)

// isSecret reports whether a variable has a secret that this program, or a coordinator or an agent
// that is started from the same shell, reads for itself. Commands that it starts do not get it.
func isSecret(name string) bool {
	if slices.Contains([]string{"BURSAR_TOKEN", "CONSUL_HTTP_TOKEN", "CONSUL_HTTP_AUTH", "PGPASSWORD", storefacts.Variable}, name) {
		return true
	}
	return strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") && strings.HasSuffix(name, "HEADERS")
}

// inherited is this program's environment without secrets.
func inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return isSecret(name)
	})
}
