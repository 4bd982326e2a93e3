//go:build linux

package linkis

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// message is an answer of Linkis's own API.
type message struct {
	Status  int            `json:"status"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data"`
}

// rest calls Linkis's API of a service: path is below /api/rest_j/v1. A nil body is a GET.
func (w *world) rest(s *service, method, path string, body any, within time.Duration) (message, error) {
	var m message
	ctx, cancel := context.WithTimeout(w.t.Context(), within)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return m, err
	}
	var content io.Reader = http.NoBody
	if body != nil {
		content = bytes.NewReader(text)
	}
	url := "http://" + net.JoinHostPort(s.node.Address.String(), strconv.Itoa(s.port)) + "/api/rest_j/v1/" + path
	request, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return m, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return m, err
	}
	defer response.Body.Close()
	if text, err = io.ReadAll(response.Body); err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %s: %w: %.300s", path, response.Status, err, text)
	}
	return m, nil
}

// engine is one that Linkis has created.
type engine struct {
	instance, ticket string
	pid              int
}

// create creates a shell engine by Linkis's own API.
func (w *world) create(memory string) (engine, error) {
	m, err := w.rest(w.manager, http.MethodPost, "linkisManager/createEngineConn", map[string]any{
		"labels":     map[string]string{"engineType": "shell-1", "userCreator": w.user + "-IDE"},
		"properties": map[string]string{"wds.linkis.engineconn.java.driver.memory": memory}, "timeout": 120_000,
	}, 3*time.Minute)
	if err != nil {
		return engine{}, err
	}
	if m.Status != 0 {
		return engine{}, fmt.Errorf("%s", m.Message)
	}
	made, _ := m.Data["engine"].(map[string]any)
	service, _ := made["serviceInstance"].(map[string]any)
	var e engine
	e.instance, _ = service["instance"].(string)
	e.ticket, _ = made["ticketId"].(string)
	if e.ticket == "" || e.instance == "" {
		return e, fmt.Errorf("no engine in %v", m.Data)
	}
	return e, nil
}
