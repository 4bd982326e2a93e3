package main

import (
	"io"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/providers/yarn"
)

// knownKinds are the kinds of clusters that this program can read.
func knownKinds() providers.Kinds { return nil }

// addressesFromSite reads the addresses of ResourceManagers from a yarn-site.xml.
func addressesFromSite(r io.Reader) ([]string, error) { return yarn.AddressesFromSite(r) }
