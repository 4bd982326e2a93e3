package main

import (
	"io"

	"github.com/bursar/bursar/providers"
)

// knownKinds are the kinds of clusters that this program can read.
func knownKinds() providers.Kinds { return nil }

// addressesFromSite reads the addresses of ResourceManagers from a yarn-site.xml.
func addressesFromSite(io.Reader) ([]string, error) { return nil, nil }
