package kinds

import (
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/providers/exec"
	"github.com/bursar/bursar/providers/yarn"
)

// Known are the kinds of clusters that this program can read.
func Known() providers.Kinds { return providers.Kinds{yarn.Kind(), exec.Kind()} }
