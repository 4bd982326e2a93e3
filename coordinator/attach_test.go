package coordinator

import (
	"testing"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// An agent that names another host than its identity hears which of the two is wrong, and the audit
// record names the host that it asked for.
func TestAnAgentTakesTheOrdersOfItsOwnHost(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	agent := c.visit(t, "agent2")
	stream, err := agent.hosts.Attach(t.Context(), &bursarv1.AttachRequest{HostId: "h1", Incarnation: 1})
	if err != nil {
		t.Fatal(err)
	}
	for stream.Receive() {
		t.Errorf("the stream says %v", stream.Msg())
	}
	const want = `agent2 may not take the orders of host h1: its identity is for host "h2": want hostId: h2, or a token (certificate) of the agent of h1`
	expect(t, "the orders of another host", stream.Err(), connect.CodePermissionDenied, want)
	_, err = agent.hosts.Answer(t.Context(), &bursarv1.AnswerRequest{
		HostId: "h1", Incarnation: 1, AllocationId: "00000000000aa", Result: &bursarv1.AnswerRequest_Signaled{Signaled: &bursarv1.SignalDone{}},
	})
	expect(t, "an answer for another host", err, connect.CodePermissionDenied, `agent2 may not answer the orders of host h1: its identity is for host "h2"`)
	c.stop()
	targets := map[string]string{}
	for _, r := range c.records(t) {
		if r.Code == "permission_denied" {
			targets[r.Procedure] = r.Target + ": " + r.Message
		}
	}
	if got := targets["/bursar.v1.HostService/Attach"]; got != "host h1: "+want {
		t.Errorf("the record of Attach: %s", got)
	}
}
