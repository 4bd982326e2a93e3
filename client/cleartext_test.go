package client

import (
	"context"
	"errors"
	"net"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

var errDialed = errors.New("it was to be connected to")

// undialed makes a client that connects to nothing: each dial fails with errDialed.
func undialed(c *Client) *Client {
	c.transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, errDialed }
	return c
}

func TestTokenDoesNotCrossANetworkInClear(t *testing.T) {
	token := WithToken(func() (string, error) { return "s3cret", nil })
	one := func(server string, opts ...Option) *Client {
		c, err := New(server, append(opts, WithoutRetries())...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	found := func(url string, opts ...Option) *Client {
		return NewCluster(finderOf{{URL: url}}, append(opts, WithoutRetries())...)
	}
	for name, test := range map[string]struct {
		client  *Client
		refused bool
	}{
		"found without TLS":             {found("http://10.6.6.6:7070", token), true},
		"found with TLS":                {found("https://10.6.6.6:7070", token), false},
		"found on this machine":         {found("http://127.0.0.1:7070", token), false},
		"found, no token":               {found("http://10.6.6.6:7070"), false},
		"named without a scheme":        {one("10.6.6.6:7070", token), false}, // means https
		"named with http":               {one("http://10.6.6.6:7070", token), true},
		"named on this machine":         {one("127.0.0.1:7070", token), false},
		"named on this machine by name": {one("localhost:7070", token), false},
		"a token for later":             {one("10.6.6.6:7070").With(token), true},
	} {
		c := undialed(test.client)
		_, err := c.Cluster().Status(t.Context(), &bursarv1.StatusRequest{})
		switch {
		case test.refused && (!errors.Is(err, ErrTokenInClear) || connect.CodeOf(err) != connect.CodeUnauthenticated):
			t.Errorf("%s: %v: want it refused", name, err)
		case !test.refused && !errors.Is(err, errDialed):
			t.Errorf("%s: %v: want it sent", name, err)
		}
		c.Close()
	}
}

func TestAddressWithoutASchemeMeansTLSWhereThereIsAToken(t *testing.T) {
	for server, want := range map[string]string{
		"rm-1:7070": "https://rm-1:7070", "http://rm-1:7070": "http://rm-1:7070", "127.0.0.1:7070": "http://127.0.0.1:7070",
		"/run/bursar/agent.sock": "http://localhost",
	} {
		c, err := New(server, WithToken(func() (string, error) { return "s3cret", nil }))
		if err != nil || c.baseURL != want {
			t.Errorf("%s: %v, %v: want %s", server, c.baseURL, err, want)
		}
	}
}

// finderOf is a finder with a given list.
type finderOf []discovery.Coordinator

func (f finderOf) Coordinators() (list []discovery.Coordinator, changed <-chan struct{}) {
	return f, nil
}
