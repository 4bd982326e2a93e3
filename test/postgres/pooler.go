package postgres

import (
	"context"
	"fmt"
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

	"github.com/bursar/bursar/test/proc"
)

// Pooler is a PgBouncer in front of a Server.
type Pooler struct{ host string }

// StartPooler runs a PgBouncer for the length of a test, in a mode (session, transaction or
// statement) and with at most size connections to the server. more has additional lines of its
// configuration.
func StartPooler(tb testing.TB, s *Server, mode string, size int, more ...string) *Pooler {
	tb.Helper()
	program := "/usr/sbin/pgbouncer" // on Debian it is often not on the PATH
	if found, err := exec.LookPath("pgbouncer"); err == nil {
		program = found
	}
	if _, err := os.Stat(program); err != nil {
		tb.Fatalf("no PgBouncer here: `make provide-postgres` installs it on Debian: %v", err)
	}
	port, err := proc.FreePort("127.0.0.1")
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "bursar-pgbouncer-") //nolint:usetesting // another user must get into it
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	if s.as != nil {
		if err := os.Chown(dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			tb.Fatal(err)
		}
	}
	password := ""
	if s.password != "" {
		password = " password=" + s.password
	}
	config := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d user=%s%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"auth_type = any\npool_mode = %s\ndefault_pool_size = %d\nunix_socket_dir =\nignore_startup_parameters = extra_float_digits,search_path\n%s\n",
		s.port, User, password, port, mode, size, strings.Join(more, "\n"))
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil { //nolint:gosec // in a directory of mode 0700
		tb.Fatal(err)
	}
	command := exec.CommandContext(context.WithoutCancel(tb.Context()), program, file) //nolint:gosec // as found
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: s.as, Setpgid: true}
	var said strings.Builder
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = command.Wait() }()
	tb.Cleanup(func() { _ = command.Process.Kill(); <-ended })
	p := &Pooler{host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	limit := time.After(patience)
	for {
		connection, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", p.host)
		if err == nil {
			connection.Close()
			return p
		}
		select {
		case <-ended:
			tb.Fatalf("PgBouncer ended: %s", said.String())
		case <-limit:
			tb.Fatalf("PgBouncer does not answer: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// DSN returns the address of a database through the pooler. Parameters are "name=value".
func (p *Pooler) DSN(database string, parameters ...string) string {
	address := url.URL{Scheme: "postgres", Host: p.host, Path: "/" + database, User: url.User(User)}
	address.RawQuery = strings.Join(append([]string{"sslmode=disable"}, parameters...), "&")
	return address.String()
}
