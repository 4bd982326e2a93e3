package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/test/proc"
)

// Options configure a server. The zero value of a field is its default.
type Options struct {
	// Settings are for postgresql.conf, and override this package's.
	Settings map[string]string
	// Password is required on TCP connections. Empty: none.
	Password string
}

// User is the role that owns everything.
const User = "bursar"

// patience is how long the server may take to come up or to end. After a SIGKILL it replays its
// log.
const patience = 60 * time.Second

// Server is one PostgreSQL. See the package comment.
type Server struct {
	dir      string
	bin      binaries
	as       *syscall.Credential
	port     int
	password string

	process  *exec.Cmd
	ended    chan struct{} // closed when process has ended
	guardian *proc.Guardian
}

// Start launches a server for the length of a test. The test fails if that does not work.
func Start(tb testing.TB, options Options) *Server {
	tb.Helper()
	dir, err := os.MkdirTemp("", "bursar-postgres-") //nolint:usetesting // another user must get into it, and a socket's path is short
	if err != nil {
		tb.Fatal(err)
	}
	s, err := Launch(tb.Context(), dir, options)
	if err != nil {
		_ = os.RemoveAll(dir)
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Launch creates a new database cluster in a directory, which the server takes over, and starts it.
// Close ends it and removes the directory.
func Launch(ctx context.Context, dir string, options Options) (*Server, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	as, err := account()
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin, as: as, password: options.Password}
	if err := s.initialize(ctx, options); err != nil {
		return nil, err
	}
	if s.guardian, err = guard(dir); err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// initialize creates the cluster and its configuration.
func (s *Server) initialize(ctx context.Context, options Options) error {
	if s.as != nil {
		if err := os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
	}
	if err := os.Chmod(s.dir, 0o700); err != nil { //nolint:gosec // a directory
		return fmt.Errorf("postgres: %w", err)
	}
	arguments := []string{
		"--pgdata", s.data(), "--username", User, "--encoding", "UTF8", "--no-locale", "--no-sync", "--no-instructions", "--auth-local=trust",
		"--auth-host=trust",
	}
	if options.Password != "" {
		file := filepath.Join(s.dir, "password")
		if err := os.WriteFile(file, []byte(options.Password+"\n"), 0o644); err != nil { //nolint:gosec // in a directory of mode 0700
			return fmt.Errorf("postgres: %w", err)
		}
		arguments[len(arguments)-1] = "--auth-host=scram-sha-256"
		arguments = append(arguments, "--pwfile", file)
	}
	made := s.command(ctx, "initdb", arguments...)
	if output, err := made.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, output)
	}
	port, err := proc.FreePort("127.0.0.1")
	if err != nil {
		return err
	}
	s.port = port
	settings := map[string]string{
		"listen_addresses": "127.0.0.1", "port": strconv.Itoa(port), "unix_socket_directories": s.dir,
		// mmap: shared memory is in the server's directory, too.
		"max_connections": "100", "shared_buffers": "64MB", "dynamic_shared_memory_type": "mmap",
		"fsync": "on", "synchronous_commit": "on", "log_min_messages": "warning",
	}
	maps.Copy(settings, options.Settings)
	var text strings.Builder
	for name, value := range settings {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(value, "'", "''"))
	}
	file, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	_, err = file.WriteString(text.String())
	return errors.Join(err, file.Close())
}

// command returns a command for a PostgreSQL program, as the right user. The kernel ends it when
// this process ends.
func (s *Server) command(ctx context.Context, program string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, filepath.Join(string(s.bin), program), arguments...) //nolint:gosec // as found
	command.Dir = s.dir
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + s.dir}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Credential: s.as, Setpgid: true}
	return command
}

// Host returns the server's host and port.
func (s *Server) Host() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Socket returns the directory of its socket, for host= in a DSN.
func (s *Server) Socket() string { return s.dir }

// DSN returns the address of a database, with the password if there is one. Parameters are
// "name=value".
func (s *Server) DSN(database string, parameters ...string) string {
	address := url.URL{Scheme: "postgres", Host: s.Host(), Path: "/" + database, User: url.User(User)}
	if s.password != "" {
		address.User = url.UserPassword(User, s.password)
	}
	address.RawQuery = strings.Join(append([]string{"sslmode=disable"}, parameters...), "&")
	return address.String()
}

// Execute runs SQL in a database, as its owner, over the socket, so without a password. It fails if
// that takes longer than patience, for example because of a lock.
func (s *Server) Execute(ctx context.Context, database, statements string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	connection, err := s.connect(ctx, database)
	if err != nil {
		return err
	}
	_, err = connection.PgConn().Exec(ctx, statements).ReadAll()
	if err = errors.Join(err, connection.Close(ctx)); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return nil
}

func (s *Server) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("sslmode=disable")
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	config.Host, config.Port, config.User, config.Database = s.dir, uint16(s.port), User, database //nolint:gosec // a port
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return connection, nil
}

// CreateDatabase creates an empty database and returns its address.
func (s *Server) CreateDatabase(ctx context.Context, name string) (dsn string, err error) {
	if err := s.Execute(ctx, "postgres", "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", err
	}
	return s.DSN(name), nil
}
