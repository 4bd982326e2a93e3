package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// coordinatorFlags name the coordinators, the authorities to trust and the token to show. The
// program bursar understands them; this one passes them on.
type coordinatorFlags struct {
	addr, tokenFile, ca, cert, key, serverName string
}

func (f *coordinatorFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.addr, "addr", "", "coordinators: HOST:PORT or http(s)://HOST:PORT, several with commas between them, or consul[://HOST:PORT[/SERVICE]] (env BURSAR_ADDR)")
	flags.StringVar(&f.tokenFile, "token-file", "", "file with the bearer token to show (env BURSAR_TOKEN_FILE; or the token itself in BURSAR_TOKEN)")
	flags.StringVar(&f.ca, "tls-ca", "", "file of the CAs that may have issued the coordinator's certificate (env BURSAR_TLS_CA, default the machine's)")
	flags.StringVar(&f.cert, "tls-cert", "", "file of a client certificate to show (env BURSAR_TLS_CERT)")
	flags.StringVar(&f.key, "tls-key", "", "file of its private key (env BURSAR_TLS_KEY)")
	flags.StringVar(&f.serverName, "tls-server-name", "", "name that the coordinator's certificate must have (env BURSAR_TLS_SERVER_NAME, default its address)")
}

// list has the flags by their names, in the order of the help.
func (f *coordinatorFlags) list() [][2]string {
	return [][2]string{
		{"addr", f.addr}, {"token-file", f.tokenFile}, {"tls-ca", f.ca}, {"tls-cert", f.cert}, {"tls-key", f.key}, {"tls-server-name", f.serverName},
	}
}

// given is the first of the flags that the command line has; empty: none.
func (f *coordinatorFlags) given(flags *pflag.FlagSet) string {
	for _, pair := range f.list() {
		if flags.Changed(pair[0]) {
			return pair[0]
		}
	}
	return ""
}

// named reports whether the user has said where Bursar is.
func (f *coordinatorFlags) named() bool { return f.addr != "" || os.Getenv("BURSAR_ADDR") != "" }

// hosts are Bursar's, if the user has said where it is; otherwise nil. The program bursar asks for
// them: it knows how to find coordinators, and which to trust. Its other lines go to messages.
func (f *coordinatorFlags) hosts(ctx context.Context, messages io.Writer) ([]*bursarv1.Host, error) {
	if !f.named() {
		return nil, nil
	}
	program, err := besides("bursar")
	if err != nil {
		return nil, exit(exitUnavailable, err)
	}
	args := []string{"hosts", "--output", outputJSON}
	for _, pair := range f.list() {
		if pair[1] != "" {
			args = append(args, "--"+pair[0]+"="+pair[1])
		}
	}
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // the program is this package's own
	said, writes, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	defer said.Close()
	cmd.Stderr = writes
	heard := make(chan error, 1)
	go func() { heard <- listen(said, messages) }()
	answer, err := cmd.Output()
	_ = writes.Close()
	if reason := <-heard; err != nil {
		return nil, failure(err, reason)
	}
	var list bursarv1.HostServiceListResponse
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("the answer of %s hosts: %w", program, err)
	}
	if list.Hosts == nil {
		list.Hosts = []*bursarv1.Host{} // Bursar has none, which is not the same as nobody was asked
	}
	return list.GetHosts(), nil
}

// besides finds another program of the same package: next to this one, or in PATH.
func besides(name string) (string, error) {
	if own, err := os.Executable(); err == nil {
		sibling := filepath.Join(filepath.Dir(own), name)
		if info, err := os.Stat(sibling); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return sibling, nil
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the program %s is neither next to this one nor in PATH, and it is the one that asks a coordinator for its hosts: "+
			"install it, or leave --addr and BURSAR_ADDR out", name)
	}
	return found, nil
}

// listen passes on bursar's lines until it ends, and returns the error that it ended with; nil:
// it has named none.
func listen(from io.Reader, to io.Writer) error {
	var last error
	for lines := bufio.NewScanner(from); lines.Scan(); {
		var line struct {
			Error *errorJSON `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Error == nil {
			fmt.Fprintln(to, spelling.Printable(lines.Text(), '?'))
			continue
		}
		e := line.Error
		last = &exitError{code: e.ExitCode, err: errors.New(e.Message), notes: e.Notes, hints: e.Hints}
	}
	_, _ = io.Copy(io.Discard, from) // after a line that is too long, so that bursar can end
	return last
}

// failure is the error of a bursar that failed.
func failure(err, reason error) error {
	if reason != nil && exitCode(reason) != 0 {
		return reason
	}
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() > 0 {
		return exit(ended.ExitCode(), fmt.Errorf("bursar hosts: %w", err))
	}
	return exit(exitUnavailable, fmt.Errorf("bursar hosts: %w", err))
}
