package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/test/proc"
	"github.com/bursar/bursar/test/underrace"
)

// crowded is a coordinator in a process of its own that may have few descriptors.
type crowded struct {
	t       *testing.T
	address string
	log     string // its file
	pid     int
}

func startCrowded(t *testing.T, descriptors int) *crowded {
	t.Helper()
	program, err := exec.LookPath("bursar")
	if err != nil {
		t.Fatal(err)
	}
	address := proc.Address(t)
	cmd := exec.Command("/bin/sh", "-c", `ulimit -n "$1" && shift && exec "$@"`, "sh", strconv.Itoa(descriptors),
		program, "coordinator", "--listen", address, "--data-dir", t.TempDir())
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		err := cmd.Wait()
		if text, _ := os.ReadFile(log.Name()); err != nil || t.Failed() {
			t.Logf("%v\n%s", err, text)
		}
		log.Close()
	})
	c := &crowded{t: t, address: address, log: log.Name(), pid: cmd.Process.Pid}
	deadline, tick := time.Now().Add(20*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for c.probe("/readyz") != nil { // until then a stand-in answers, with limits of its own
		if <-tick.C; time.Now().After(deadline) {
			t.Fatal(c.probe("/readyz"))
		}
	}
	return c
}

// healthy asks for the health on a new connection.
func (c *crowded) healthy() error { return c.probe("/healthz") }

func (c *crowded) probe(page string) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	res, err := client.Get("http://" + c.address + page)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", res.Status)
	}
	return nil
}

// answersTogether opens all connections before it asks on each of them.
func (c *crowded) answersTogether(n int) {
	c.t.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			c.t.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
	}
	for i, conn := range conns {
		_, err := conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"))
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		status := make([]byte, len("HTTP/1.1 200"))
		if err == nil {
			_, err = io.ReadFull(conn, status)
		}
		if err != nil || string(status) != "HTTP/1.1 200" {
			c.t.Errorf("connection %d of %d that were opened together: %q, %v", i+1, n, status, err)
		}
	}
}

// flooded opens connections without end and sends the same on each, until stop is called.
func (c *crowded) flooded(sent string) (stop func()) {
	address, err := net.ResolveTCPAddr("tcp", c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			var open [100]net.Conn
			for i := 0; ctx.Err() == nil; i = (i + 1) % len(open) {
				if open[i] != nil {
					_ = open[i].Close()
				}
				conn, err := net.DialTCP("tcp", nil, address)
				open[i] = nil
				if err == nil {
					_ = conn.SetLinger(0) // its port is free again at once
					open[i] = conn
					_, _ = conn.Write([]byte(sent)) // it may have been closed for another one
				}
			}
			for _, conn := range open {
				if conn != nil {
					_ = conn.Close()
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// resident is the memory that the process has in RAM, in bytes.
func (c *crowded) resident() int {
	c.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.pid))
	if err != nil {
		c.t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		c.t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// Connections on which nothing comes, or only half of a request, keep neither probes nor callers
// away.
func TestIdleConnectionsLeaveRoomForOthers(t *testing.T) {
	// The preface of HTTP/2, and empty SETTINGS.
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for name, sent := range map[string]string{
		"HTTP/2 without a request": preface,
		"nothing":                  "",
		"half of a header":         "POST /bursar.v1.ClusterService/Status HTTP/1.1\r\nHost: x\r\n",
		"half of a body":           "POST /bursar.v1.ClusterService/Status HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"half of a health check":   "POST /grpc.health.v1.Health/Check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			_, _, alice, _ := tenantsOf(t)
			c := startCrowded(t, 200)
			for i := range 400 {
				conn, err := net.Dial("tcp", c.address)
				if err != nil {
					t.Fatalf("connection %d: %v", i, err)
				}
				defer conn.Close()
				_, _ = conn.Write([]byte(sent)) // it may have been closed for another one
			}
			c.answersTogether(5)
			for range 20 {
				if err := c.healthy(); err != nil {
					t.Fatal(err)
				}
			}
			defer c.flooded(sent)()
			cmd := exec.Command(alice.binary, "--addr", "http://"+c.address, "status")
			cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "HOME=/"}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: alice.uid, Gid: alice.uid}}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("another user: %v\n%s", err, out)
			}
			log, err := os.ReadFile(c.log)
			if n := strings.Count(string(log), "connections of a caller are closed or refused"); err != nil || n < 1 || n > 3 {
				t.Errorf("%v; %d lines say whose connections are closed, want one for each caller", err, n)
			}
		})
	}
}

// A request of 61 KB that becomes 64 MiB costs as much as is read of it: 128 KiB, and for a report
// 16 MiB.
func TestCompressedRequestsLeaveTheMemoryOfTheProcessAlone(t *testing.T) {
	c := startCrowded(t, 1024)
	var text bytes.Buffer
	w := gzip.NewWriter(&text)
	_, _ = fmt.Fprintf(w, `{"id":"%s"}`, strings.Repeat("a", 64<<20))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for path, most := range map[string]int{ // MiB of RSS
		"bursar.v1.HostService/Get": 32,
		// It may have 16 MiB; buffers double while they grow, until garbage is collected.
		"bursar.v1.HostService/Sync":   256,
		"bursar.v1.QuotaService/Apply": 64,
		"grpc.health.v1.Health/Check":  32,
	} {
		t.Run(path, func(t *testing.T) {
			before := c.resident()
			var all sync.WaitGroup
			for range 32 {
				all.Go(func() {
					req, _ := http.NewRequest(http.MethodPost, "http://"+c.address+"/"+path, bytes.NewReader(text.Bytes()))
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("Content-Encoding", "gzip")
					res, err := http.DefaultClient.Do(req)
					if err != nil {
						t.Error(err)
						return
					}
					defer res.Body.Close()
					if res.StatusCode == http.StatusOK {
						t.Error("was answered")
					}
				})
			}
			all.Wait()
			most *= underrace.Factor
			grown := c.resident() - before
			t.Logf("32 requests of %d KiB: %d MiB more", text.Len()>>10, grown>>20)
			if grown > most<<20 {
				t.Errorf("RSS grew by %d MiB, want at most %d", grown>>20, most)
			}
		})
	}
}
