package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// beCaller makes one call to an agent and prints what came of it. It runs in a process of its own,
// as another user.
func beCaller() int {
	said, err := call(strings.Fields(os.Getenv("CALL")))
	if err != nil {
		said = connect.CodeOf(err).String() + " " + err.Error()
	}
	if _, err := os.Stdout.WriteString(said + "\n"); err != nil {
		return 1
	}
	return 0
}

func call(words []string) (string, error) {
	http, address := socketClient(os.Getenv(asCaller)), "http://agent"
	if over := os.Getenv("LOOPBACK"); over != "" {
		http.Transport, address = nil, over
	}
	client := bursarv1connect.NewAllocationServiceClient(http, address)
	ctx := context.Background()
	switch words[0] {
	case "allocate":
		r, err := client.Allocate(ctx, request(10))
		return r.GetAllocation().GetId(), err
	case "promise": // to confirm a process, and end without doing so
		req := request(10)
		req.ConfirmsProcess = true
		r, err := client.Allocate(ctx, req)
		return r.GetAllocation().GetId(), err
	case "keep": // confirm a process that goes on, and end
		req := request(10)
		req.ConfirmsProcess = true
		r, err := client.Allocate(ctx, req)
		if err != nil {
			return "", err
		}
		engine := exec.Command("/bin/sleep", "1000")
		if err := engine.Start(); err != nil {
			return "", err
		}
		_, err = client.Confirm(ctx, &bursarv1.ConfirmRequest{Id: r.GetAllocation().GetId(), Process: &bursarv1.Process{Pid: int32(engine.Process.Pid)}})
		return fmt.Sprint(r.GetAllocation().GetId(), " ", engine.Process.Pid), err
	case "confirm":
		pid, err := strconv.Atoi(words[2])
		if words[2] == "self" {
			pid, err = os.Getpid(), nil
		}
		if err != nil {
			return "", err
		}
		_, err = client.Confirm(ctx, &bursarv1.ConfirmRequest{Id: words[1], Process: &bursarv1.Process{Pid: int32(pid)}})
		return "confirmed", err
	case "contain":
		return contain(ctx, client, words[1], words[2])
	case "launch":
		engines := bursarv1connect.NewEngineServiceClient(http, "http://agent")
		_, err := engines.Launch(ctx, &bursarv1.LaunchRequest{Id: words[1], User: words[2], Command: words[3:], WorkingDirectory: "/"})
		return "launched", err
	case "signal":
		_, err := bursarv1connect.NewEngineServiceClient(http, "http://agent").Signal(ctx, &bursarv1.SignalRequest{Id: words[1], Signal: bursarv1.Signal_SIGNAL_USR1})
		return "sent", err
	case "stop":
		_, err := client.Stop(ctx, &bursarv1.StopRequest{Id: words[1]})
		return "stopped", err
	case "settle":
		return settle(ctx, client, words[1:])
	case "flood":
		return flood(client, words[1:])
	case "swell":
		return swell()
	default:
		r, err := http.Get("http://agent" + words[1])
		if err != nil {
			return "", err
		}
		return strconv.Itoa(r.StatusCode), r.Body.Close()
	}
}

// swell begins 16 requests of nearly 1 MiB each and ends none of them. It says how many were
// refused.
func swell() (string, error) {
	const begun, most = 16, 1 << 20
	refused := 0
	for range begun {
		conn, err := net.Dial("unix", os.Getenv(asCaller))
		if err != nil {
			return "", err
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: agent\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
			bursarv1connect.AllocationServiceExplainProcedure, most); err != nil {
			return "", err
		}
		_, writeErr := conn.Write(bytes.Repeat([]byte{' '}, most-1))
		if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return "", err
		}
		answer, _ := io.ReadAll(conn)
		if writeErr != nil || strings.Contains(string(answer), "too many requests") {
			refused++
		}
	}
	return fmt.Sprintf("refused %d", refused), nil
}

// settle uses the rate up, and then releases and cancels a number of allocations that are not
// there, each once. It says how often it was refused for asking too much.
func settle(ctx context.Context, client bursarv1connect.AllocationServiceClient, words []string) (string, error) {
	number, err := strconv.Atoi(words[0])
	if err != nil {
		return "", err
	}
	if _, err := flood(client, []string{"100", "4"}); err != nil {
		return "", err
	}
	refused := 0
	for i := range number {
		_, err := client.Release(ctx, &bursarv1.ReleaseRequest{Id: fmt.Sprint("nobody's ", i)})
		if i%2 == 0 {
			_, err = client.Cancel(ctx, &bursarv1.CancelRequest{Id: fmt.Sprint("nobody's ", i)})
		}
		if err != nil && strings.Contains(err.Error(), "too many requests") {
			refused++
		}
	}
	return fmt.Sprintf("refused %d", refused), nil
}

// flood makes a number of requests at once, from a number of workers, and says how many of them
// were refused for being too many.
func flood(client bursarv1connect.AllocationServiceClient, words []string) (string, error) {
	requests, err := strconv.Atoi(words[0])
	workers, workersErr := strconv.Atoi(words[1])
	if err = errors.Join(err, workersErr); err != nil {
		return "", err
	}
	var refused, failed atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range requests / workers {
				_, err := client.Explain(context.Background(), &bursarv1.ExplainRequest{Id: "of nobody"})
				switch {
				case err != nil && strings.Contains(err.Error(), "too many requests"):
					refused.Add(1)
				case connect.CodeOf(err) == connect.CodeUnavailable:
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	return fmt.Sprintf("refused %d failed %d", refused.Load(), failed.Load()), nil
}
