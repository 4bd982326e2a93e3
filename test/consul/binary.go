package consul

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// errNoBinary says that no Consul binary was found.
var errNoBinary = errors.New("no Consul server here, neither below .cache/tools of the module nor on the PATH: run make tools")

// findBinary returns the server among the module's tools, which it searches from this folder
// upwards, or the one on the PATH.
func findBinary() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		found, err := filepath.Glob(filepath.Join(folder, ".cache", "tools", "consul-*", "consul"))
		if err == nil && len(found) > 0 {
			return found[len(found)-1], nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			break
		}
		folder = parent
	}
	if found, err := exec.LookPath("consul"); err == nil {
		return found, nil
	}
	return "", errNoBinary
}
