package coordinator

import (
	"bytes"
	"strings"
	"testing"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A coordinator gives each registration another token, and refuses one that was replaced.
func TestACopyOfAStateDirectoryIsRefused(t *testing.T) {
	f := start(t, Config{}, nil)
	ctx := t.Context()
	register := func(incarnation uint64, token []byte) (*bursarv1.RegisterResponse, error) {
		capacity := &bursarv1.Resource{MemoryBytes: quantity(gib)}
		return f.hosts.Register(ctx, &bursarv1.RegisterRequest{
			HostId: "h1", Incarnation: incarnation, BootId: "boot", MachineId: "m", PidNamespace: "1", Capacity: capacity, IdentityToken: token,
		})
	}
	first, err := register(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := register(1, first.GetIdentityToken())
	if err != nil || len(second.GetIdentityToken()) != 32 || bytes.Equal(first.GetIdentityToken(), second.GetIdentityToken()) {
		t.Fatalf("%v, %v; want another token of 32 bytes", second, err)
	}
	f.sync("h1", second.GetEpoch(), 1, gib)
	_, err = register(2, first.GetIdentityToken())
	if connect.CodeOf(err) != connect.CodeAlreadyExists || !strings.Contains(err.Error(), "copy of the state directory") {
		t.Errorf("a copy: %v; want that it is told", err)
	}
	for name, message := range map[string]interface{ String() string }{
		"the list": func() interface{ String() string } {
			res, err := f.hosts.List(ctx, &bursarv1.HostServiceListRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if res.GetHosts()[0].GetStranger() == "" {
				t.Error("the host does not show the copy")
			}
			return res
		}(),
	} {
		if strings.Contains(message.String(), string(second.GetIdentityToken())) {
			t.Errorf("%s has the token", name)
		}
	}
	if _, err := register(2, second.GetIdentityToken()); err != nil {
		t.Errorf("the agent itself: %v", err)
	}
}
