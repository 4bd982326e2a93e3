//go:build linux

package ha

import (
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/test/netlab"
)

// trust is what a cluster is secured by. A nil trust says so loudly that it is not.
type trust struct{}

// coordinator is that part of a coordinator's configuration.
func (t *trust) coordinator(*cluster, *netlab.Node) string { return "insecure: true\n" }

func (t *trust) agent(*cluster, string) string { return "" }

func (t *trust) client(*cluster, string) []client.Option { return nil }
