package storefacts

import (
	"fmt"
	"io"
	"strings"

	"github.com/bursar/bursar/internal/regularfile"
)

// maxSecret is more than any address or password of a database needs.
const maxSecret = 16 << 10

// ReadSecret reads a file that only its owner and group may read, for at most regularfile.Patience.
func ReadSecret(path string) (string, error) {
	return regularfile.Within(path, regularfile.Patience, func(func(string)) (string, error) { return readSecret(path) })
}

func readSecret(path string) (string, error) {
	file, info, err := regularfile.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	switch {
	case info.Size() > maxSecret:
		return "", fmt.Errorf("%s: want a regular file of at most %d bytes", path, maxSecret)
	case info.Mode().Perm()&0o007 != 0:
		return "", fmt.Errorf("%s: mode %04o lets everybody at it: want 0600", path, info.Mode().Perm())
	}
	content, err := io.ReadAll(io.LimitReader(file, maxSecret))
	if err != nil {
		return "", err
	}
	// Some editors write a byte order mark.
	if text := strings.TrimSpace(strings.TrimPrefix(string(content), "\ufeff")); text != "" {
		return text, nil
	}
	return "", fmt.Errorf("%s: is empty", path)
}
