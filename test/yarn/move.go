package yarn

import (
	"net/http"
	"testing"
)

// Move moves a running application to another queue. Hadoop27 cannot.
func (c *Cluster) Move(tb testing.TB, id, queue string) {
	tb.Helper()
	if err := c.ask(tb.Context(), http.MethodPut, "apps/"+id+"/queue", User, map[string]any{"queue": queue}, nil); err != nil {
		tb.Fatal(err)
	}
}
