package coordinator

import (
	"context"
	"testing"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/turns"
	"github.com/bursar/bursar/internal/identity"
)

func TestCommandsWaitForTheTurnOfTheirActor(t *testing.T) {
	for name, test := range map[string]struct {
		actor identity.Actor
		want  turns.Owner
	}{
		"a submitter":                    {identity.Actor{Name: "alice", Role: identity.Submitter}, turns.Owner{Class: turns.Callers, Name: "alice"}},
		"a reader":                       {identity.Actor{Name: "eve", Role: identity.Reader}, turns.Owner{Class: turns.Callers, Name: "eve"}},
		"a user of a host":               {identity.Actor{Name: "alice@h1", Role: identity.Submitter, Host: "h1"}, turns.Owner{Class: turns.Callers, Name: "alice@h1"}},
		"a subordinate id of alice's":    {identity.Actor{Name: "100007@h1", Users: []string{"100007"}, Owner: "alice", Role: identity.Submitter, Host: "h1"}, turns.Owner{Class: turns.Callers, Name: "alice@h1"}},
		"an operator":                    {identity.Actor{Name: "olga", Role: identity.Operator}, turns.Owner{Class: turns.Operators, Name: "olga"}},
		"an admin":                       {identity.Local(), turns.Owner{Class: turns.Operators, Name: "local"}},
		"root of a host, over its agent": {identity.Actor{Name: "root@h1", Admin: true, Host: "h1"}, turns.Owner{Class: turns.Callers, Name: "root@h1"}},
		"an agent":                       {identity.Actor{Name: "agent-1", Role: identity.Agent, Host: "h1"}, turns.Owner{Class: turns.Hosts, Name: "h1"}},
	} {
		ctx := auth.WithCaller(context.Background(), &auth.Caller{Actor: test.actor, Maker: identity.Actor{Name: "coordinator-2", Role: identity.Coordinator}})
		if got := ownerOf(ctx); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	if got, want := ownerOf(context.Background()), (turns.Owner{Class: turns.Hosts}); got != want {
		t.Errorf("its own: %+v, want %+v", got, want)
	}
}
