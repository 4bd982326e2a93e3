package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bursar/bursar/test/proc"
)

// otherAgent is an agent of another project that measures the same machine at the same time.
type otherAgent struct {
	*daemon

	name string
	// url is the page to read once per tick; empty: the agent measures at its own times.
	url string
}

// startOtherAgents starts the agents whose programs are installed. Their work per tick is compared
// with that of our agent: node_exporter reads the whole machine but no process; telegraf's procstat
// reads each of the engines' processes.
func (r *run) startOtherAgents(ctx context.Context, dir string, tick time.Duration) (list []otherAgent, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, stopAll(list))
			list = nil
		}
	}()
	if r.nodeExporter != "" {
		address, err := proc.FreeAddress()
		if err != nil {
			return list, err
		}
		d, err := r.startOther(ctx, r.nodeExporter, "http://"+address+"/metrics", "--web.listen-address="+address, "--collector.processes", "--log.level=error")
		if err != nil {
			return list, err
		}
		list = append(list, otherAgent{d, "node-exporter", "http://" + address + "/metrics"})
	}
	if r.telegraf != "" {
		config := filepath.Join(dir, "telegraf.conf")
		if err := os.WriteFile(config, fmt.Appendf(nil, `[agent]
  interval = %q
  flush_interval = "5s"
  omit_hostname = true
  quiet = true
[[inputs.mem]]
[[inputs.procstat]]
  pattern = "^sleep %s$"
  pid_finder = "native"
[[outputs.discard]]
`, tick.String(), asEngine), 0o600); err != nil {
			return list, fmt.Errorf("telegraf: %w", err)
		}
		d, err := r.startOther(ctx, r.telegraf, "", "--config", config)
		if err != nil {
			return list, err
		}
		list = append(list, otherAgent{d, "telegraf", ""})
	}
	return list, nil
}

// startOther starts a program of another project, and waits until it serves its page, if it has
// one.
func (r *run) startOther(ctx context.Context, program, page string, arguments ...string) (*daemon, error) {
	command := exec.Command(program, arguments...) //nolint:gosec,noctx // what this program was told to compare with
	command.Stdout, command.Stderr = r.log, r.log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	d := &daemon{command: command}
	if page == "" {
		return d, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := await(ctx, 10*time.Millisecond, func(ctx context.Context) error { return probe(ctx, page) }); err != nil {
		return nil, errors.Join(fmt.Errorf("%s does not serve: %w", program, err), d.kill())
	}
	return d, nil
}

// ask reads the agent's page once per tick until ctx ends, like a monitoring system.
func (n otherAgent) ask(ctx context.Context, tick time.Duration) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url, nil)
		if err != nil {
			return
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			continue // its CPU time shows that it did nothing
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
}

func stopAll(list []otherAgent) error {
	var errs []error
	for _, n := range list {
		errs = append(errs, n.kill())
	}
	for i, err := range errs {
		if _, killed := errors.AsType[*exec.ExitError](err); killed {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}
