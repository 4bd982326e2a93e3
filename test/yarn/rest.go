package yarn

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// User is the default user for submitting and killing.
const User = "alice"

// Application describes an application for Submit: only a master, which sleeps until it is killed.
type Application struct {
	// Queue is a path or, if the version of Hadoop accepts no path, a leaf.
	Queue string
	// MemoryMiB and VCores are the size of its only container.
	MemoryMiB, VCores int
	// User defaults to User.
	User string
	// Partition is the label of the node that it must run on.
	Partition string
	// Command is the master's command; the default is to sleep.
	Command string
}

// Submit submits an application and returns its id once the ResourceManager has accepted it.
func (c *Cluster) Submit(tb testing.TB, a Application) string {
	tb.Helper()
	id, err := c.TrySubmit(tb, a)
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

// TrySubmit is Submit for an application that the ResourceManager may reject at once.
func (c *Cluster) TrySubmit(tb testing.TB, a Application) (string, error) {
	tb.Helper()
	if a.User == "" {
		a.User = User
	}
	var made struct {
		ID string `json:"application-id"`
	}
	if err := c.ask(tb.Context(), http.MethodPost, "apps/new-application", a.User, nil, &made); err != nil {
		tb.Fatal(err)
	}
	request := map[string]any{
		"application-id": made.ID, "application-name": "sleeps", "application-type": "TEST", "queue": a.Queue, "max-app-attempts": 1,
		"am-container-spec": map[string]any{"commands": map[string]any{"command": cmp.Or(a.Command, "exec sleep 3600")}},
		"unmanaged-AM":      false,
		"resource":          map[string]any{"memory": a.MemoryMiB, "vCores": a.VCores},
	}
	if a.Partition != "" {
		request["am-container-node-label-expression"] = a.Partition
		request["app-node-label-expression"] = a.Partition
	}
	if err := c.ask(tb.Context(), http.MethodPost, "apps", a.User, request, nil); err != nil {
		return "", err
	}
	c.await(tb, made.ID+" is accepted", func(now Status) bool {
		return now.State != "NEW" && now.State != "NEW_SAVING" && now.State != "SUBMITTED"
	}, made.ID)
	return made.ID, nil
}

// Refused submits an application that the ResourceManager rejects, and returns the reason.
func (c *Cluster) Refused(tb testing.TB, a Application) string {
	tb.Helper()
	id := c.Submit(tb, a)
	if now := c.Status(tb, id); now.State != "FAILED" {
		tb.Fatalf("%s is %s: %s", id, now.State, now.Diagnostics)
	} else {
		return now.Diagnostics
	}
	return ""
}

// Status is the ResourceManager's information about an application.
type Status struct {
	// State is RUNNING once its master has registered.
	State       string
	AllocatedMB int64
	// RunningContainers is the number of its containers, including the master's.
	RunningContainers int
	// Diagnostics is why it failed, or why it does not start.
	Diagnostics string
}

// Ended reports whether it is over.
func (s Status) Ended() bool {
	return s.State == "FINISHED" || s.State == "FAILED" || s.State == "KILLED"
}

// Status asks the ResourceManager about an application.
func (c *Cluster) Status(tb testing.TB, id string) Status {
	tb.Helper()
	var answer struct{ App Status }
	if err := c.ask(tb.Context(), http.MethodGet, "apps/"+id, User, nil, &answer); err != nil {
		tb.Fatal(err)
	}
	return answer.App
}

// Diagnostics returns the ResourceManager's diagnostics of an application, such as why it does not
// start.
func (c *Cluster) Diagnostics(tb testing.TB, id string) string {
	tb.Helper()
	return c.Status(tb, id).Diagnostics
}

// AwaitAllocated waits until applications have their containers.
func (c *Cluster) AwaitAllocated(tb testing.TB, ids ...string) {
	tb.Helper()
	for _, id := range ids {
		c.await(tb, id+" holds something", func(now Status) bool {
			if now.Ended() {
				tb.Fatalf("%s is %s: %s", id, now.State, now.Diagnostics)
			}
			return now.AllocatedMB > 0
		}, id)
	}
}

// AwaitLaunched waits until an application's container runs. It is allocated before that. If the
// active ResourceManager is killed before the launch, the next one does not find the container
// again.
func (c *Cluster) AwaitLaunched(tb testing.TB, id string) {
	tb.Helper()
	Await(tb, id+" runs", func() bool {
		places, err := filepath.Glob("/proc/[0-9]*/cwd")
		if err != nil {
			tb.Fatal(err)
		}
		return slices.ContainsFunc(places, func(link string) bool {
			place, err := os.Readlink(link) // a process may have ended since
			return err == nil && strings.Contains(place, "/appcache/"+id+"/container_")
		})
	})
}

// Kill kills applications and waits until they are over.
func (c *Cluster) Kill(tb testing.TB, ids ...string) {
	tb.Helper()
	for _, id := range ids {
		if err := c.ask(tb.Context(), http.MethodPut, "apps/"+id+"/state", User, map[string]any{"state": "KILLED"}, nil); err != nil {
			tb.Fatal(err)
		}
	}
	for _, id := range ids {
		c.await(tb, id+" is over", Status.Ended, id)
	}
}

func (c *Cluster) await(tb testing.TB, what string, is func(Status) bool, id string) {
	tb.Helper()
	Await(tb, what, func() bool { return is(c.Status(tb, id)) })
}

// Await polls until a condition holds, and fails the test after three minutes.
func Await(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	err := until(tb.Context(), func(context.Context) error {
		if !is() {
			return fmt.Errorf("not yet: %s", what)
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// until retries until try succeeds or patience is over.
func until(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-again.C:
		}
	}
}

// Get asks the first ResourceManager, or the active one of a pair, for a path below
// /ws/v1/cluster/, and returns the raw answer.
func (c *Cluster) Get(tb testing.TB, path string) []byte {
	tb.Helper()
	var answer json.RawMessage
	if err := c.ask(tb.Context(), http.MethodGet, path, User, nil, &answer); err != nil {
		tb.Fatal(err)
	}
	return answer
}

// ask asks the ResourceManagers in turn until one answers. It decodes the answer, if answer is not
// nil.
func (c *Cluster) ask(ctx context.Context, method, path, user string, request, answer any) error {
	var errs []string
	for _, rm := range c.Managers {
		err := rm.ask(ctx, method, path, user, request, answer)
		if err == nil {
			return nil
		}
		errs = append(errs, err.Error())
	}
	return fmt.Errorf("%s", strings.Join(errs, "; "))
}

// tell sends an administrator's request to the first ResourceManager.
func (c *Cluster) tell(ctx context.Context, path string, parameters url.Values, xml string) error {
	_, err := c.Managers[0].send(ctx, http.MethodPost, path, User, parameters, "application/xml", strings.NewReader(xml))
	return err
}

func (m *Manager) ask(ctx context.Context, method, path, user string, request, answer any) error {
	var body bytes.Buffer
	if request != nil {
		if err := json.NewEncoder(&body).Encode(request); err != nil {
			return err
		}
	}
	said, err := m.send(ctx, method, path, user, nil, "application/json", &body)
	if err != nil || answer == nil {
		return err
	}
	if err := json.Unmarshal(said, answer); err != nil {
		return fmt.Errorf("%s %s: %w in %s", method, path, err, said[:min(len(said), 500)])
	}
	return nil
}

// send sends a request and returns the answer, whose status must be success.
func (m *Manager) send(ctx context.Context, method, path, user string, parameters url.Values, kind string, body io.Reader) ([]byte, error) {
	address := m.URL + "/ws/v1/cluster/" + path
	query := url.Values{"user.name": {user}}
	maps.Copy(query, parameters)
	r, err := http.NewRequestWithContext(ctx, method, address+"?"+query.Encode(), body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", kind)
	client := http.Client{
		Timeout: patience,
		// A restarted server does not answer on an old connection.
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: m.tls},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, address, err)
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusAccepted {
		return nil, fmt.Errorf("%s %s: %s: %s", method, address, response.Status, said[:min(len(said), 500)])
	}
	return said, nil
}
