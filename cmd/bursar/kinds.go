package main

import (
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/providers/exec"
	"github.com/bursar/bursar/providers/yarn"
)

// knownKinds are the kinds of clusters that this program can read.
func knownKinds() providers.Kinds { return providers.Kinds{yarn.Kind(), exec.Kind()} }
