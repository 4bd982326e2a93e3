package yarn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// errNoHadoop means that Hadoop is not installed.
var errNoHadoop = errors.New("not below .cache/tools of the module: run make yarn")

// installed returns a file or folder of the module's tools. It searches from this folder upwards.
func installed(name string) (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		path := filepath.Join(folder, ".cache", "tools", name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", fmt.Errorf("%s: %w", name, errNoHadoop)
		}
		folder = parent
	}
}
