package consul

import (
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bursar/bursar/test/proc"
)

// Consul leaves out the parts of an answer that a token may not read, and answers 200.
func TestAnEmptyAnswerThatAnACLExplainsIsWarnedOf(t *testing.T) {
	for name, tt := range map[string]struct {
		token  string
		header http.Header
		want   string
	}{
		"no token, and the default is to deny": {"", http.Header{"X-Consul-Default-Acl-Policy": {"deny"}}, "set consul.token or consul.tokenFile"},
		"a token that may read something else": {"t", http.Header{"X-Consul-Results-Filtered-By-Acls": {"true"}}, "an agent needs service:read and node:read"},
		"no token, and none is needed":         {"", http.Header{"X-Consul-Default-Acl-Policy": {"allow"}}, ""},
		"a token that may read it":             {"t", http.Header{"X-Consul-Default-Acl-Policy": {"deny"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 100)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("index") != "" { // the first answer has been used
					asked <- struct{}{}
					<-r.Context().Done()
					return
				}
				maps.Copy(w.Header(), tt.header)
				w.Header().Set("X-Consul-Index", "7")
				w.Header().Set("X-Consul-Knownleader", "true")
				w.Header().Set("X-Consul-Lastcontact", "0")
				_, _ = w.Write([]byte("[]"))
			}))
			var log proc.Output
			client := open(t, Config{Address: server.URL, Token: tt.token, Service: "s"})
			end := run(t, NewFinder(client, FinderOptions{Log: slog.New(slog.NewTextHandler(&log, nil))}).Run)
			<-asked
			end()
			server.Close()
			if said := log.String(); tt.want == "" && said != "" || !strings.Contains(said, tt.want) {
				t.Errorf("the log has %q, want %q in it", said, tt.want)
			}
		})
	}
}
