package store

import (
	"cmp"
	"os"

	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/storefacts"
)

// orEnvironment is read, or else the variable of the environment.
func (f storeFlags) orEnvironment() (string, error) {
	place, err := f.read()
	if err != nil {
		return "", err
	}
	if place = cmp.Or(place, os.Getenv(storefacts.Variable)); place == "" {
		return "", failure.Usagef("want --store, the path of a file or postgres://…, or --store-file")
	}
	return place, nil
}
