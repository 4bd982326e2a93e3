package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// resourceManager is a process that serves as the ResourceManagers of several YARN clusters, each
// under its own path.
type resourceManager struct {
	answers map[string][]byte // of /scheduler, by path

	mu    sync.Mutex
	polls []poll // guarded by mu; since the last order
}

// poll is the time of one answer of a scheduler, in nanoseconds of the wall clock, which all
// processes of a machine share.
type poll struct{ Began, Ended int64 }

// managerID is the start time that the ResourceManager reports, in milliseconds.
const managerID = 1_700_000_000_000

// basePath returns the path of the cluster with so many queues.
func basePath(queues int) string { return "/" + strconv.Itoa(queues) + "/ws/v1/cluster" }

func (m *resourceManager) do(ctx context.Context, o order) (answer, error) {
	if m.answers == nil {
		return m.open(ctx, o.Queues)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	cpu, err := cpuTime()
	polls := m.polls
	m.polls = nil
	return answer{CPU: cpu, Polls: polls}, err
}

func (m *resourceManager) open(ctx context.Context, clusters []int) (answer, error) {
	m.answers = make(map[string][]byte, len(clusters))
	for _, queues := range clusters {
		m.answers[basePath(queues)] = yarnCluster{queues: queues}.answer()
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return answer{}, fmt.Errorf("a ResourceManager: %w", err)
	}
	server := &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // until this process ends
	return answer{Address: listener.Addr().String()}, nil
}

// ServeHTTP answers like an active ResourceManager without applications.
func (m *resourceManager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	if strings.HasSuffix(r.URL.Path, "/info") {
		fmt.Fprintf(w, `{"clusterInfo":{"id":%d,"startedOn":%d,"state":"STARTED","haState":"ACTIVE","resourceManagerVersion":"3.4.1"}}`, managerID, managerID)
		return
	}
	base, asked := strings.CutSuffix(r.URL.Path, "/scheduler")
	body, known := m.answers[base]
	if !asked || !known {
		http.NotFound(w, r)
		return
	}
	began := time.Now()
	_, _ = w.Write(body)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.polls = append(m.polls, poll{began.UnixNano(), time.Now().UnixNano()})
}
