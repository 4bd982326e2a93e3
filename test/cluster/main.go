// Command cluster shows Bursar as several machines would run it, on this one: a real Consul and a
// real PostgreSQL, three coordinators that elect a leader, and two agents that find them. It stays
// up until it is interrupted, and leaves nothing behind. It is for trying things out: nobody is
// asked who they are, and everything is on loopback.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/bursar/bursar/test/consul"
	"github.com/bursar/bursar/test/postgres"
	"github.com/bursar/bursar/test/proc"
)

func main() {
	binary := flag.String("bursar", "bin/bursar", "the binary to run")
	flag.Parse()
	if err := untilInterrupted(*binary); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func untilInterrupted(binary string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, binary); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// cluster is what runs.
type cluster struct {
	binary, dir string
	running     sync.WaitGroup
}

func run(ctx context.Context, binary string) (err error) {
	if binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bursar-cluster-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, sub := range []string{"consul", "postgres"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil { //nolint:gosec // PostgreSQL does not run as root
			return err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // as above
		return err
	}
	c := &cluster{binary: binary, dir: dir}
	discovery, err := consul.Launch(ctx, filepath.Join(dir, "consul"), 1, consul.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, discovery[0].Stop()) }()
	database, err := postgres.Launch(ctx, filepath.Join(dir, "postgres"), postgres.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	dsn, err := database.CreateDatabase(ctx, "bursar")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer c.running.Wait()
	defer cancel()
	return c.show(ctx, discovery[0].Address, dsn)
}

// show starts the coordinators and the agents, prints where they are, and waits.
func (c *cluster) show(ctx context.Context, discovery, dsn string) error {
	var urls []string
	for i := range 3 {
		address, err := proc.FreeAddress()
		if err != nil {
			return err
		}
		name := fmt.Sprintf("coordinator-%d", i+1)
		file := filepath.Join(c.dir, name+".yaml")
		settings := fmt.Sprintf("listen: %[1]s\nadvertise: http://%[1]s\nstore: %[2]s\nconsul:\n  address: %[3]s\n", address, dsn, discovery)
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			return err
		}
		if err := c.start(ctx, name+" http://"+address, name, "coordinator", "--config", file); err != nil {
			return err
		}
		urls = append(urls, "http://"+address)
	}
	for i := range 2 {
		name := fmt.Sprintf("host-%d", i+1)
		file := filepath.Join(c.dir, name+".yaml")
		settings := fmt.Sprintf("hostId: %s\nsocket: %s\nstateDir: %s\ntick: 1s\ncapacity: {memory: 4GiB}\nconsul:\n  address: %s\n",
			name, c.socket(name), filepath.Join(c.dir, name), discovery)
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			return err
		}
		if err := c.start(ctx, name, name, "agent", "--config", file); err != nil {
			return err
		}
	}
	if err := ready(ctx, urls); err != nil {
		return err
	}
	fmt.Printf(`three coordinators, two hosts, Consul and PostgreSQL are up; logs are in %s

in another terminal:
  export BURSAR_ADDR=%s,%s,%s BURSAR_AGENT=%s
  bursar status
  bursar hosts
  bursar run --memory 64MiB --label user=$USER -- sleep 600
then kill the coordinator that leads (bursar status says which; the lines above, which process that is), look again, and start it again:
  bursar coordinator --config %s/coordinator-1.yaml
`, c.dir, urls[0], urls[1], urls[2], c.socket("host-1"), c.dir)
	<-ctx.Done()
	return nil
}

func (c *cluster) socket(host string) string { return filepath.Join(c.dir, host+".sock") }

// start runs the binary until ctx ends; then it is asked to end, so that it hands over. What it
// says goes into a file.
func (c *cluster) start(ctx context.Context, what, name string, arguments ...string) error {
	cmd := exec.CommandContext(ctx, c.binary, arguments...) //nolint:gosec // what the caller says
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}    // the terminal's ^C is ours to pass on
	log, err := os.Create(filepath.Join(c.dir, name+".log")) //nolint:gosec // a folder of our own
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	fmt.Printf("%s is process %d\n", what, cmd.Process.Pid)
	c.running.Go(func() {
		_ = cmd.Wait() // the user may kill it to see what happens
		_ = log.Close()
	})
	return nil
}

// ready waits until every coordinator answers calls, itself or by passing them on.
func ready(ctx context.Context, urls []string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for _, url := range urls {
		for !answers(ctx, url) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("%s does not become ready: %w", url, ctx.Err())
			}
		}
	}
	return nil
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}
