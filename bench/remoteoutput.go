package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// remoteOutput compares the rate of an engine's output at a reader with a raw stream: one process
// sends to another one, which sends to the reader.
func (r *run) remoteOutput(ctx context.Context, s *starter, w *workload) (err error) {
	size := int64(r.size(w.Window)) << 23
	id, err := s.written(ctx, size)
	if err != nil {
		return fmt.Errorf("an engine with output: %w", err)
	}
	relay, err := r.startChild(ctx, "relay", order{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, relay.stop()) }()
	var output, share []float64
	for range r.rounds(w.Rounds) {
		raw, err := r.rawStream(ctx, relay.first.Address, size)
		if err != nil {
			return fmt.Errorf("a raw stream: %w", err)
		}
		logs, err := s.readOutput(ctx, id, size)
		if err != nil {
			return fmt.Errorf("output: %w", err)
		}
		output, share = append(output, logs), append(share, logs/raw)
	}
	r.line("remote/output", median(output), "MiB/s", median(share))
	return nil
}

// written starts an engine that writes size bytes, and waits for its end.
func (s *starter) written(ctx context.Context, size int64) (id string, err error) {
	id, err = s.startCommand(ctx, &bursarv1.LaunchSpec{
		Command: []string{"/usr/bin/head", "-c", strconv.FormatInt(size, 10), "/dev/urandom"}, Logs: &bursarv1.LaunchLogs{MaxBytes: 2 * size},
	})
	if err == nil {
		_, err = s.coordinator.Engines().Wait(ctx, &bursarv1.WaitRequest{Id: id})
	}
	return id, err
}

// readOutput reads all output and returns the rate in MiB per second.
func (s *starter) readOutput(ctx context.Context, id string, size int64) (float64, error) {
	began, got := time.Now(), int64(0)
	stream, err := s.coordinator.Engines().Logs(ctx, &bursarv1.LogsRequest{Id: id, Stream: bursarv1.OutputStream_OUTPUT_STREAM_STDOUT})
	if err != nil {
		return 0, err
	}
	for stream.Receive() {
		got += int64(len(stream.Msg().GetData()))
	}
	took := time.Since(began)
	if err := errors.Join(stream.Err(), stream.Close()); err != nil {
		return 0, err
	}
	return speed(got, size, took)
}

// speed returns the rate in MiB per second.
func speed(got, want int64, took time.Duration) (float64, error) {
	if got != want {
		return 0, fmt.Errorf("%d bytes came, want %d", got, want)
	}
	return float64(got) / (1 << 20) / took.Seconds(), nil
}

// rawStream reads the bytes of a new process from a relay, and returns the rate in MiB per second.
func (r *run) rawStream(ctx context.Context, relay string, size int64) (perSecond float64, err error) {
	sender, err := r.startChild(ctx, "relay", order{Bytes: size, Servers: []string{relay}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, sender.stop()) }()
	reader := unencryptedHTTP2()
	defer reader.CloseIdleConnections()
	began := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+relay, nil)
	if err != nil {
		return 0, err
	}
	response, err := reader.Do(request)
	if err != nil {
		return 0, err
	}
	got, err := io.Copy(io.Discard, struct{ io.Reader }{response.Body})
	took := time.Since(began)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return 0, err
	}
	return speed(got, size, took)
}

func unencryptedHTTP2() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: protocols}}
}

// relayChild is a process that returns the body of a POST as the answer to the next GET, or one
// that sends such a body.
type relayChild struct{ bodies chan io.Reader }

func (c *relayChild) do(ctx context.Context, o order) (answer, error) {
	if o.Bytes > 0 {
		go func() { _ = sendZeros(ctx, o.Servers[0], o.Bytes) }() // the reader counts them
		return answer{}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return answer{}, fmt.Errorf("relay: %w", err)
	}
	c.bodies = make(chan io.Reader)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: c, Protocols: protocols, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	return answer{Address: listener.Addr().String()}, nil
}

// ServeHTTP implements http.Handler.
func (c *relayChild) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		// without the short cuts of io.Copy, like a server that inspects the data
		_, _ = io.CopyBuffer(struct{ io.Writer }{w}, <-c.bodies, make([]byte, 64<<10))
		return
	}
	read, written := io.Pipe()
	select {
	case c.bodies <- read:
	case <-r.Context().Done():
		return
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{written}, struct{ io.Reader }{r.Body}, make([]byte, 64<<10))
	written.CloseWithError(err)
}

func sendZeros(ctx context.Context, server string, size int64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+server, io.LimitReader(zeros{}, size))
	if err != nil {
		return err
	}
	response, err := unencryptedHTTP2().Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
