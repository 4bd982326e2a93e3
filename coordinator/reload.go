package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/reload"
	"github.com/bursar/bursar/internal/yamlfile"
	"github.com/bursar/bursar/providers"
)

// reloadTime bounds how long a reload waits for the loop and the store.
const reloadTime = 30 * time.Second

// Reload applies the settings of a new configuration that can change while the coordinator runs,
// and returns which ones did. Settings that need a restart stay as they are. It reads again the
// files of quotas, providers, identities and TLS that the configuration names. The rules of the
// quota files are then in force as after a start. If anything is wrong nothing changes, and the
// error is one of those of Check. An error of the loop or the store, for example because another
// coordinator leads by now, may come after the quotas are in force. One goroutine at a time may
// call Reload, once the coordinator is ready.
func (s *Server) Reload(ctx context.Context, config Config) (reload.Changes, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return reload.Changes{}, err
	}
	next, changes := reload.Take(s.running, config)
	if err := Check(next, s.pollers.Kinds, s.elect != nil); err != nil {
		return reload.Changes{}, err
	}
	configured, err := readProviders(next.ProvidersFile, s.pollers.Kinds)
	if err != nil {
		return reload.Changes{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, reloadTime)
	defer cancel()
	if err := s.files.reload(ctx, next.QuotaFiles); err != nil {
		return reload.Changes{}, err
	}
	s.running = next
	s.readers.SetRates(next.Output.rates())
	if err := s.loop.SetProviders(ctx, configured); err != nil {
		return changes, fmt.Errorf("providers: %w", err)
	}
	if s.trust.identities != nil {
		s.trust.identities.Refresh()
	}
	return changes, nil
}

// Check reports whether a coordinator would start with a configuration, as far as its files can
// tell. It reads the files and changes nothing. elected says that the coordinator stands for
// election. The errors are those of New, and those of wrong files.
func Check(config Config, kinds providers.Kinds, elected bool) error {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return err
	}
	labels, err := config.Labels.Compile()
	if err != nil {
		return fmt.Errorf("labels: %w", err)
	}
	if err := labels.Restrict(config.KnownLabels); err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	trust, err := openTrust(&config, quiet)
	if err != nil {
		return err
	}
	if elected {
		if err := trust.checkPeers(config.advertised(config.Listen)); err != nil {
			return err
		}
	}
	if err := checkQuotaFiles(config); err != nil {
		return err
	}
	if err := checkAuditLog(config.AuditLog); err != nil {
		return err
	}
	if err = checkProviders(config.ProvidersFile, kinds); err != nil {
		return inField("providersFile", err)
	}
	return nil
}

// FileError reports that a file which a field of the configuration names cannot be read now. It may
// be readable at another time.
type FileError struct {
	Field string
	Err   error // names the file
}

func (e *FileError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// inField adds the configuration field to the error of an unreadable file. An error with a place in
// the file stays as it is.
func inField(field string, err error) error {
	if _, located := errors.AsType[*yamlfile.Error](err); located || err == nil {
		return err
	}
	return &FileError{field, err}
}

// checkAuditLog checks that the audit log could be opened, and creates nothing.
func checkAuditLog(path string) error {
	if path == "" {
		return nil
	}
	wrong := func(reason string, cause error) error {
		return transient(&ConfigError{"auditLog", path, "a file that can be written (" + reason + ")"}, cause)
	}
	if err := auth.GuardAuditLog(path); err != nil {
		return wrong(err.Error(), err)
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		dir := filepath.Dir(path)
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
			return wrong(dir+": "+err.Error(), err)
		}
	case err != nil:
		return wrong(err.Error(), err)
	case info.IsDir():
		return wrong("it is a directory", nil)
	default:
		if err := unix.Access(path, unix.W_OK); err != nil {
			return wrong(err.Error(), err)
		}
	}
	return nil
}

// checkQuotaFiles checks the rules of all files together.
func checkQuotaFiles(config Config) error {
	q := &quotaFiles{sets: make(map[string][]ledger.Quota), wrong: make(map[string]string)}
	for _, path := range config.QuotaFiles {
		q.files = append(q.files, &quotaFile{path: path})
	}
	_, err := q.start()
	return err
}

// checkLogLevel checks LogLevel, which the program around the coordinator reads.
func (c Config) checkLogLevel() error {
	var level slog.Level
	if c.LogLevel != "" && level.UnmarshalText([]byte(c.LogLevel)) != nil {
		return &ConfigError{"logLevel", c.LogLevel, "debug, info, warn or error"}
	}
	return nil
}
