package clusters

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/providers"
)

// Credentials is the directory of the files that providers from the API may name. Otherwise an
// admin could send any file that the coordinator can read to any address.
type Credentials string

func (c Credentials) wantFile() string { return fmt.Sprintf("a file in %s, without ..", string(c)) }

// pathOf returns the path of a file in a setting. ok is false if the name leads outside of the
// directory. A relative name is relative to the directory.
func (c Credentials) pathOf(value string) (path string, ok bool) {
	for element := range strings.SplitSeq(filepath.ToSlash(value), "/") {
		if element == ".." {
			return "", false
		}
	}
	path = filepath.Clean(value)
	if !filepath.IsAbs(path) {
		path = filepath.Join(string(c), path)
	}
	return path, isInside(filepath.Clean(string(c)), path)
}

func isInside(dir, path string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}

// Check checks the names of the files in settings. The error is a *providers.SettingError.
func (c Credentials) Check(kind providers.Kind, settings map[string]string) error {
	for _, name := range kind.Files() {
		value, given := settings[name]
		if !given {
			continue
		}
		if _, ok := c.pathOf(value); !ok {
			return &providers.SettingError{Setting: name, Value: value, Want: c.wantFile()}
		}
	}
	return nil
}

// settings returns the settings to open a provider with. For a provider from the API, it makes
// paths absolute, and checks that no link leads out of the directory. A provider from a file may
// name any file, because that file is the operator's. The error is a *providers.SettingError.
func (c Credentials) settings(kind providers.Kind, record *ledger.ProviderRecord) (map[string]string, error) {
	if record.FromFile() {
		return record.Settings, nil
	}
	settings := maps.Clone(record.Settings)
	for _, name := range kind.Files() {
		value, given := settings[name]
		if !given {
			continue
		}
		refuse := func(want string) error { return &providers.SettingError{Setting: name, Value: value, Want: want} }
		path, ok := c.pathOf(value)
		if !ok {
			return nil, refuse(c.wantFile())
		}
		lies, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, refuse(fmt.Sprintf("a file that is there (%v)", err))
		}
		home, err := filepath.EvalSymlinks(string(c))
		if err != nil || !isInside(home, lies) {
			return nil, refuse(c.wantFile() + ", and no link out of it")
		}
		settings[name] = path
	}
	return settings, nil
}
