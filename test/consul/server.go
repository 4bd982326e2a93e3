package consul

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// Server is one Consul server.
type Server struct {
	// Address is the base URL of its API, http or https.
	Address string
	// DNS is the address that answers queries, as host:port.
	DNS string
	// Token has all rights; empty if access control is off.
	Token string
	// Node is its name in the catalog.
	Node string

	options Options
	bind    string
	dir     string
	binary  string
	ports   ports

	process *exec.Cmd
	ended   chan struct{} // closed when process has ended
}

// patience bounds the time in which a server starts or ends.
const patience = 30 * time.Second

// Start starts one server for the duration of a test, and waits until it is ready.
func Start(tb testing.TB, options Options) *Server {
	tb.Helper()
	return StartCluster(tb, 1, options)[0]
}

// StartCluster starts several servers that are one cluster. The options hold for all of them.
func StartCluster(tb testing.TB, size int, options Options) []*Server {
	tb.Helper()
	servers, err := Launch(tb.Context(), tb.TempDir(), size, options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		for _, s := range servers {
			s.Kill()
			if tb.Failed() {
				tb.Logf("%s said at last:\n%s", s.Node, s.Tail())
			}
		}
	})
	return servers
}

// Launch is StartCluster for a program: the servers keep their data in the folder, and run until
// Kill or Stop.
func Launch(ctx context.Context, dir string, size int, options Options) ([]*Server, error) {
	each := make([]Options, size)
	for i := range each {
		each[i] = options
	}
	return LaunchEach(ctx, dir, each)
}

// LaunchEach is Launch for servers with different options, such as their addresses and network
// namespaces.
func LaunchEach(ctx context.Context, dir string, each []Options) ([]*Server, error) {
	binary, err := findBinary()
	if err != nil {
		return nil, err
	}
	servers := make([]*Server, 0, len(each))
	var join []string
	for i, options := range each {
		s, err := prepare(filepath.Join(dir, "consul-"+strconv.Itoa(i+1)), binary, options)
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
		join = append(join, net.JoinHostPort(s.bind, strconv.Itoa(s.ports.Serf)))
	}
	for _, s := range servers {
		if err = s.configure(len(servers), join); err != nil {
			break
		}
		if err = s.start(); err != nil {
			break
		}
	}
	for _, s := range servers {
		if err == nil {
			err = s.Ready(ctx)
		}
	}
	if err != nil {
		for _, s := range servers {
			s.Kill()
		}
		return nil, err
	}
	return servers, nil
}

func prepare(dir, binary string, options Options) (*Server, error) {
	s := &Server{Token: options.Token, Node: filepath.Base(dir), options: options, bind: options.Bind, dir: dir, binary: binary}
	if s.bind == "" {
		s.bind = "127.0.0.1"
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if s.ports, err = choosePorts(s.bind, options.Cert != ""); err != nil {
		return nil, err
	}
	s.Address = "http://" + net.JoinHostPort(s.bind, strconv.Itoa(s.ports.HTTP))
	if options.Cert != "" {
		s.Address = "https://" + net.JoinHostPort(s.bind, strconv.Itoa(s.ports.HTTPS))
	}
	s.DNS = net.JoinHostPort(s.bind, strconv.Itoa(s.ports.DNS))
	return s, nil
}

func (s *Server) start() error {
	output, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer output.Close() // the child has its own
	line := append(append([]string{}, s.options.Prefix...), s.binary, "agent", "-config-file", filepath.Join(s.dir, "consul.json"))
	s.process = exec.Command(line[0], line[1:]...) //nolint:gosec,noctx // a test's own server, which ends with Kill
	s.process.Stdout, s.process.Stderr = output, output
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("start Consul: %w", err)
	}
	ended, process := make(chan struct{}), s.process
	s.ended = ended
	go func() {
		defer close(ended)
		_ = process.Wait()
	}()
	return nil
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

// Tail returns the end of the server's output.
func (s *Server) Tail() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// Client is Consul's own client of this server, with its token.
func (s *Server) Client() (*api.Client, error) {
	config := api.DefaultNonPooledConfig()
	config.Address, config.Token = s.Address, s.Token
	config.TLSConfig = api.TLSConfig{CAFile: s.options.CA}
	if s.options.VerifyClients {
		config.TLSConfig.CertFile, config.TLSConfig.KeyFile = s.options.Cert, s.options.Key
	}
	return api.NewClient(config)
}

// Ready waits until the server has a leader and reports its node as healthy.
func (s *Server) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := s.Client()
	if err != nil {
		return err
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		checks, _, err := client.Health().Node(s.Node, new(api.QueryOptions).WithContext(ctx))
		if err == nil && len(checks) > 0 && checks.AggregatedStatus() == api.HealthPassing {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not up after %v: %w\n%s", s.Node, patience, errors.Join(err, ctx.Err()), s.Tail())
		case <-s.ended:
			return fmt.Errorf("%s has ended:\n%s", s.Node, s.Tail())
		case <-look.C:
		}
	}
}
