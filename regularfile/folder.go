package regularfile

import (
	"fmt"
	"os"
	"path/filepath"
)

// Folder refuses the path of a folder that is not there and cannot be made, because it, or what it would be in, is something else. It makes
// nothing, and does not ask who may. The error names what is in the way.
func Folder(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err //nolint:wrapcheck // names the current folder
	}
	for {
		if info, err := os.Stat(path); err == nil {
			if !info.IsDir() {
				return fmt.Errorf("%s is no directory", path)
			}
			return nil
		}
		above := filepath.Dir(path)
		if above == path {
			return nil
		}
		path = above
	}
}
