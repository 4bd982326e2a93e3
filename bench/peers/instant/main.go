// Command instant is a peer for tests: it grants every request at once.
package main

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/bursar/bursar/bench/peers"
)

// instant is a scheduler that grants all requests except those that have to wait.
type instant struct {
	granted func(name string, allocations int)

	mu   sync.Mutex
	live map[string]bool // guarded by mu
}

func (s *instant) Open(c peers.Cluster, granted func(string, int)) (string, error) {
	if c.Hosts <= 0 || c.Host.Memory <= 0 || len(c.Apps) == 0 {
		return "", fmt.Errorf("%d hosts with %d bytes for %d applications: want at least one of each", c.Hosts, c.Host.Memory, len(c.Apps))
	}
	s.granted, s.live = granted, make(map[string]bool)
	return "instant", nil
}

func (s *instant) Submit(requests []peers.Request) error {
	for _, r := range requests {
		s.mu.Lock()
		twice := s.live[r.Name]
		s.live[r.Name] = true
		s.mu.Unlock()
		if twice {
			return fmt.Errorf("request %s was submitted twice", r.Name)
		}
		if !r.Waits {
			s.granted(r.Name, r.Count)
		}
	}
	return nil
}

func (s *instant) Release(r peers.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live[r.Name] {
		return fmt.Errorf("request %s is not there", r.Name)
	}
	delete(s.live, r.Name)
	return nil
}

func (s *instant) Close() error {
	if s.live == nil {
		return errors.New("closed without having been opened")
	}
	return nil
}

func main() {
	if err := peers.Serve(&instant{}, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "instant:", err)
		os.Exit(1) //nolint:forbidigo // only main exits
	}
}
