package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// caller speaks plain JSON over HTTP, as curl does.
type caller struct {
	http *http.Client
	base string
}

// callers are one for each server of the cluster.
func (c *cluster) callers() map[string]caller {
	socket := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.socket)
	}}
	tcp := &http.Transport{}
	c.t.Cleanup(socket.CloseIdleConnections)
	c.t.Cleanup(tcp.CloseIdleConnections)
	return map[string]caller{
		"agent":       {&http.Client{Transport: socket, Timeout: upTime}, "http://agent"},
		"coordinator": {&http.Client{Transport: tcp, Timeout: upTime}, "http://" + c.address},
	}
}

// call posts a body and returns the code of the error that comes back; empty for none.
func (c caller) call(method string, body io.Reader) (code string, err error) {
	response, err := c.http.Post(c.base+"/bursar.v1.AllocationService/"+method, "application/json", body)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		_, err = io.Copy(io.Discard, response.Body)
		return "", err
	}
	var failure struct{ Code, Message string }
	if err := json.NewDecoder(response.Body).Decode(&failure); err != nil {
		return "", fmt.Errorf("%s: not the JSON of an error: %w", response.Status, err)
	}
	if failure.Message == "" {
		return "", fmt.Errorf("%s says nothing", failure.Code)
	}
	return failure.Code, nil
}

// TestBadRequestsAreRefusedByTypeAndChangeNothing: at both doors.
func TestBadRequestsAreRefusedByTypeAndChangeNothing(t *testing.T) {
	t.Parallel()
	c := startCluster(t, settings{})
	a := c.allocate(request("alice", 1<<20, 0))
	short := request("alice", 1<<20, 0)
	short.ReservationTtl = seconds(1)
	over := c.allocate(short)
	eventually(t, upTime, "a reservation expires", func() error { return c.is(over.GetId(), expired) })
	before := accountOf(c)
	many := map[string]string{}
	for n := range 40 {
		many[fmt.Sprintf("key%d", n)] = "value"
	}
	labels := string(must[[]byte](t)(json.Marshal(many)))
	const resource = `"resource":{"memoryBytes":"1048576"}`
	for _, test := range []struct{ name, method, body, want string }{
		{"negative memory", "Allocate", `{"resource":{"memoryBytes":"-1"}}`, "invalid_argument"},
		{"memory beyond 64 bits", "Allocate", `{"resource":{"memoryBytes":"9223372036854775808"}}`, "invalid_argument"},
		{"absurd memory", "Allocate", `{"resource":{"memoryBytes":"9223372036854775807"}}`, "invalid_argument"},
		{"half a core in the wrong unit", "Allocate", `{"resource":{"cpuMillis":"0.5"}}`, "invalid_argument"},
		{"a negative countable", "Allocate", `{"resource":{"custom":{"gpu":"-1"}}}`, "invalid_argument"},
		{"nothing", "Allocate", `{}`, "invalid_argument"},
		{"an empty label key", "Allocate", `{` + resource + `,"labels":{"":"x"}}`, "invalid_argument"},
		{"a control character", "Allocate", `{` + resource + `,"labels":{"user":"a\u0000b"}}`, "invalid_argument"},
		{"40 labels", "Allocate", `{` + resource + `,"labels":` + labels + `}`, "invalid_argument"},
		{"a negative wait", "Allocate", `{` + resource + `,"wait":"-5s"}`, "invalid_argument"},
		{"not JSON", "Allocate", `{"resource":`, "invalid_argument"},
		{"an id that is none", "Confirm", `{"id":"../../etc/passwd"}`, "invalid_argument"},
		{"an unknown id", "Confirm", `{"id":"0000000000000","address":"x:1"}`, "not_found"},
		{"an expired reservation", "Confirm", `{"id":"` + over.GetId() + `","address":"x:1"}`, "failed_precondition"},
		{"more than was reserved", "Confirm", `{"id":"` + a.GetId() + `","entitled":{"memoryBytes":"2097152"}}`, "invalid_argument"},
		{"no such process", "Confirm", `{"id":"` + a.GetId() + `","process":{"pid":-5}}`, "invalid_argument"},
		{"a method that is none", "Steal", `{}`, ""},
	} {
		for name, caller := range c.callers() {
			code, err := caller.call(test.method, strings.NewReader(test.body))
			if test.want == "" && err != nil {
				continue // 404 of the HTTP server
			}
			if err != nil || code != test.want {
				t.Errorf("%s: the %s answers %q, %v; want %q", test.name, name, code, err, test.want)
			}
		}
	}
	if err := before.differs(c); err != nil {
		t.Errorf("refused requests changed the account: %v", err)
	}
	c.expectConflict(t)
	c.release(a.GetId())
	c.expectEmpty(soon)
}

// expectConflict: a request id is one request's.
func (c *cluster) expectConflict(t *testing.T) {
	t.Helper()
	r := request("alice", 1<<20, 0)
	a := c.allocate(r)
	r.Resource.CpuMillis = new(int64(5))
	if _, err := c.local.Allocations().Allocate(t.Context(), r); err == nil || !strings.Contains(err.Error(), "already_exists") {
		t.Errorf("another request under the same id: %v", err)
	}
	c.release(a.GetId())
}

// TestTenMebibyteBodiesAreRefused: with their length said, and without.
func TestTenMebibyteBodiesAreRefused(t *testing.T) {
	t.Parallel()
	c := startCluster(t, settings{})
	body := `{"resource":{"memoryBytes":"1"},"labels":{"user":"` + strings.Repeat("a", 10<<20) + `"}}`
	for name, caller := range c.callers() {
		for kind, reader := range map[string]io.Reader{
			"length said": strings.NewReader(body),
			"chunked":     io.MultiReader(strings.NewReader(body)),
		} {
			code, err := caller.call("Allocate", reader)
			// A server that has heard enough hangs up, which a client that still sends may notice
			// before it reads the answer.
			hungUp := errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
			if code != "invalid_argument" && code != "resource_exhausted" && !hungUp {
				t.Errorf("10 MiB to the %s, %s: %q, %v", name, kind, code, err)
			}
		}
	}
	c.release(c.allocate(engineRequest()).GetId())
	c.expectEmpty(soon)
}

// TestHalfOpenConnectionsDoNotStopTheService: 500 connections to each server that send nothing,
// half a header, or half a body. Others are served at the same time, and those that do not send
// their headers are closed.
func TestHalfOpenConnectionsDoNotStopTheService(t *testing.T) {
	t.Parallel()
	c := startCluster(t, settings{})
	const connections = 500
	starts := []string{
		"",
		"POST /bursar.v1.AllocationService/Allocate HTTP/1.1\r\nHost: x\r\nContent-Ty",
		"POST /bursar.v1.AllocationService/Allocate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"resource\":",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	}
	var headless []net.Conn
	for n := range connections {
		for network, address := range map[string]string{"tcp": c.address, "unix": c.socket} {
			conn := must[net.Conn](t)(net.DialTimeout(network, address, upTime))
			t.Cleanup(func() { _ = conn.Close() })
			if _, err := io.WriteString(conn, starts[n%len(starts)]); err != nil {
				t.Fatal(err)
			}
			if n%len(starts) < 2 {
				headless = append(headless, conn)
			}
		}
	}
	began := time.Now()
	for name, server := range map[string]*client.Client{
		"agent": c.client(c.socket, client.WithoutRetries()), "coordinator": c.client(c.address, client.WithoutRetries()),
	} {
		res, err := server.Allocations().Allocate(t.Context(), engineRequest())
		if err != nil {
			t.Fatalf("the %s with %d half-open connections: %v", name, connections, err)
		}
		c.release(res.GetAllocation().GetId())
	}
	c.bursar("run", "--memory", "1MiB", "--label", "user=alice", "--", "true").Expect(t, 0)
	t.Logf("served with %d half-open connections to each, in %s", connections, time.Since(began).Round(time.Millisecond))

	for _, conn := range headless {
		_ = conn.SetReadDeadline(began.Add(headerPatience))
		if _, err := bufio.NewReader(conn).ReadByte(); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a connection without a request is still open after %s", headerPatience)
		}
	}
	if !c.coordinator.Running() || !c.agent.Running() {
		t.Error("a server has ended")
	}
	c.expectEmpty(soon)
}

// headerPatience is longer than the 10 s in which a request's headers must be there.
const headerPatience = 30 * time.Second

// TestOtherUsersCannotTouchAnAllocation: the kernel says who calls the agent, not the caller. The
// test needs to run processes as another user; if it cannot, the agent's own tests have to
// suffice.
func TestOtherUsersCannotTouchAnAllocation(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("only root can become somebody else")
		return
	}
	c := startCluster(t, settings{})
	if err := os.Chmod(c.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	e, a := c.startConfirmed(engineRequest())
	reservation := c.allocate(engineRequest())
	for _, args := range [][]string{
		{"release", "--agent", c.socket, a.GetId()},
		{"cancel", "--agent", c.socket, reservation.GetId()},
		{"confirm", reservation.GetId(), "--pid", strconv.Itoa(e.pid())},
		{"stop", "--agent", c.socket, a.GetId()},
		{"allocate", "--agent", c.socket, "--memory", "1MiB", "--label", "user=alice"},
		{"run", "--memory", "1MiB", "--label", "user=alice", "--", "true"},
		{"run", "--memory", "1MiB", "--label", "user=nobody", "--priority", "5", "--", "true"},
	} {
		r := commandAs(t, &syscall.Credential{Uid: nobody, Gid: nobody}, c.environment(), args...)
		if r.Code != 77 {
			t.Errorf("bursar %s as nobody: exit code %d, want 77\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
		}
	}
	for id, want := range map[string]bursarv1.AllocationState{a.GetId(): active, reservation.GetId(): reserved} {
		if err := c.is(id, want); err != nil {
			t.Error(err)
		}
	}
	commandAs(t, &syscall.Credential{Uid: nobody, Gid: nobody}, c.environment(), "run", "--memory", "1MiB", "--label", "user=nobody", "--", "true").
		Expect(t, 0)
	c.release(reservation.GetId())
	e.kill()
	c.expectEmpty(soon)
}

// nobody is the uid of the user of that name.
const nobody = 65534
