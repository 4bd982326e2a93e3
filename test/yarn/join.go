package yarn

import (
	"fmt"
	"testing"
)

// Join starts one more NodeManager, and waits until the ResourceManager counts it. Its partition
// and custom resources must be among those of the other nodes.
func (c *Cluster) Join(tb testing.TB, node Node) {
	tb.Helper()
	if err := c.configureNode(fmt.Sprintf("nm%d", len(c.Nodes)+1), node); err != nil {
		tb.Fatal(err)
	}
	nm := c.Nodes[len(c.Nodes)-1]
	if err := nm.start(); err != nil {
		tb.Fatal(err)
	}
	if err := c.joined(tb.Context(), nm); err != nil {
		tb.Fatal(err)
	}
}
