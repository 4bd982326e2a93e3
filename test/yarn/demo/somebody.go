package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/bursar/bursar/resource"
)

// somebody uses the cluster without Bursar, over the ResourceManager's own API.
type somebody struct {
	address string // http://HOST:PORT
}

// submit submits an application that sleeps, waits for its container, and returns its id.
func (s somebody) submit(ctx context.Context, queue, memory, cores string) (string, error) {
	size, err := resource.ParseVector(map[string]string{resource.Memory: memory})
	if err != nil {
		return "", err
	}
	bytes, _ := size.Get(resource.Memory)
	vcores, err := strconv.Atoi(cores)
	if err != nil {
		return "", fmt.Errorf("%q: want a number of cores", cores)
	}
	var made struct {
		ID string `json:"application-id"`
	}
	if err := s.ask(ctx, http.MethodPost, "apps/new-application", nil, &made); err != nil {
		return "", err
	}
	err = s.ask(ctx, http.MethodPost, "apps", map[string]any{
		"application-id": made.ID, "application-name": "somebody else's", "application-type": "DEMO", "queue": queue, "max-app-attempts": 1,
		"am-container-spec": map[string]any{"commands": map[string]any{"command": "exec sleep 86400"}},
		"resource":          map[string]any{"memory": bytes >> 20, "vCores": vcores},
	}, nil)
	if err != nil {
		return "", err
	}
	return made.ID, s.await(ctx, made.ID)
}

// await waits at most ten seconds until an application has a container: its queue may be full.
func (s somebody) await(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var answer struct {
		App struct {
			State, Diagnostics string
			AllocatedMB        int64
		}
	}
	for {
		err := s.ask(ctx, http.MethodGet, "apps/"+id, nil, &answer)
		switch {
		case err != nil && ctx.Err() == nil:
			return err
		case answer.App.State == "FAILED" || answer.App.State == "KILLED":
			return fmt.Errorf("%s is %s: %s", id, answer.App.State, answer.App.Diagnostics)
		case answer.App.AllocatedMB > 0:
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s has nothing yet and waits in its queue: %s", id, answer.App.Diagnostics)
		}
	}
}

// kill kills an application.
func (s somebody) kill(ctx context.Context, id string) error {
	return s.ask(ctx, http.MethodPut, "apps/"+id+"/state", map[string]any{"state": "KILLED"}, nil)
}

func (s somebody) ask(ctx context.Context, method, path string, request, answer any) error {
	var body bytes.Buffer
	if request != nil {
		if err := json.NewEncoder(&body).Encode(request); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, s.address+"/ws/v1/cluster/"+path+"?user.name=somebody", &body)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("%s: %s: %s", path, response.Status, said)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(said, answer); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
