package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bursar/bursar/internal/regularfile"
)

const (
	// tokenFile is next to the state, not in it: the token changes at each registration, and an
	// operator who copies the state for a bug report must not disclose it.
	tokenFile = "state.identity"
	// longestToken is the limit of the contract, in bytes.
	longestToken = 64
)

// Token returns the identity token of the directory: the last one of SetToken. It is nil if there
// is none, or if the file has no valid token.
func (d *Dir) Token() ([]byte, error) {
	file, info, err := regularfile.Open(d.tokenFile())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, regularfile.ErrNotRegular) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read identity token: %w", err)
	}
	defer file.Close()
	if info.Size() == 0 || info.Size() > longestToken {
		return nil, nil
	}
	token, err := io.ReadAll(io.LimitReader(file, longestToken))
	if err != nil {
		return nil, fmt.Errorf("read identity token: %w", err)
	}
	d.token = token
	return token, nil
}

// SetToken stores the identity token, readable by the directory's owner only. When it returns nil,
// the token survives a crash of the machine; otherwise the previous one does.
func (d *Dir) SetToken(token []byte) error {
	d.token = token
	if err := d.restore(); err != nil {
		return fmt.Errorf("write identity token: %w", err)
	}
	if err := d.writeToken(); err != nil {
		return fmt.Errorf("write identity token: %w", err)
	}
	return d.sync()
}

func (d *Dir) writeToken() error {
	next := d.tokenFile() + ".new"
	err := write(next, d.token)
	if err == nil {
		err = os.Rename(next, d.tokenFile())
	}
	if err != nil {
		return errors.Join(err, removeIfThere(next))
	}
	return nil
}

// keepToken writes the token again if it is missing, because the directory was removed and made
// again.
func (d *Dir) keepToken() error {
	if _, err := os.Lstat(d.tokenFile()); len(d.token) == 0 || !errors.Is(err, fs.ErrNotExist) {
		return nil // SetToken finds other faults
	}
	return d.writeToken()
}

func (d *Dir) tokenFile() string { return filepath.Join(d.path, tokenFile) }
