package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// overSocket returns a client of an agent's socket.
func overSocket(socket string) *http.Client {
	return &http.Client{
		Timeout: time.Minute,
		Transport: &http.Transport{MaxIdleConnsPerHost: 16, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	}
}

// ask makes one call and returns its answer; status is empty unless the call was refused.
func ask(client *http.Client, method string, body io.Reader) (answer []byte, status string, err error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://agent/bursar.v1."+method, body) //nolint:gosec // of the test
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request) //nolint:gosec // over its own socket
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		status = response.Status
	}
	return answer, status, err
}

// flooded is how many calls a flood makes.
const flooded = 3000

// flood makes calls as fast as sixteen connections can. It prints the numbers of answered and
// refused calls, and the time in seconds.
func flood(socket, method string) error {
	var called, answered, refused atomic.Int64
	client := overSocket(socket)
	began := time.Now()
	var group errgroup.Group
	for range 16 {
		group.Go(func() error {
			for called.Add(1) <= flooded {
				_, status, err := ask(client, method, strings.NewReader("{}"))
				if err != nil {
					return err
				}
				if status == "" {
					answered.Add(1)
				} else {
					refused.Add(1)
				}
			}
			return nil
		})
	}
	err := group.Wait()
	fmt.Println(answered.Load(), refused.Load(), time.Since(began).Seconds())
	return err
}

// call makes one call of Bursar's API over a Unix socket: it reads the request as JSON from
// standard input, and writes the answer as JSON to standard output.
func call(socket, method string) error {
	answer, status, err := ask(overSocket(socket), method, os.Stdin)
	if err != nil {
		return err
	}
	if status != "" {
		return fmt.Errorf("%s: %s", status, answer)
	}
	_, err = os.Stdout.Write(answer)
	return err
}
