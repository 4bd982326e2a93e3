package api

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/test/certs"
)

// tool returns a program that `make tools` builds.
func tool(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "..", ".cache", "tools", name+"-*", name))
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s below .cache/tools: run make tools", name)
	}
	return found[len(found)-1]
}

// patience is how long a tool may take.
const patience = 30 * time.Second

// run returns what a tool prints, both on stdout and stderr, and its exit code.
func run(t *testing.T, program string, arguments ...string) (printed string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, arguments...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(arguments, " "), err, out)
	}
	return string(out), 0
}

// prints fails the test unless a tool ends with this code and prints this.
func prints(t *testing.T, code int, want, program string, arguments ...string) {
	t.Helper()
	out, ended := run(t, program, arguments...)
	if ended != code || !strings.Contains(out, want) {
		t.Errorf("%s %s\nended with %d and printed\n%s\nwant %d and %q", filepath.Base(program), strings.Join(arguments, " "), ended, out, code, want)
	}
}

// begins fails the test unless the first lines that a tool prints hold this. It does not wait for
// the tool's end: a stream has none.
func begins(t *testing.T, want, program string, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, arguments...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	lines := bufio.NewScanner(out)
	for !strings.Contains(printed.String(), want) && lines.Scan() {
		printed.WriteString(lines.Text() + "\n")
	}
	cancel()
	_ = cmd.Wait() // it was killed
	if !strings.Contains(printed.String(), want) {
		t.Errorf("%s %s\nprinted\n%s\nwant %q", filepath.Base(program), strings.Join(arguments, " "), printed.String(), want)
	}
}

// door is one way to a server, with the tools' options for it.
type door struct {
	name          string
	base, address string
	plain         bool
	buf, grpcurl  []string // what both need to get in
}

// doors opens every kind: a leader and a standby without TLS, a standby that asks for a
// certificate or a token, and an agent's socket.
func doors(t *testing.T) []door {
	t.Helper()
	open := startTeam(t, coordinator.Config{})
	socket := open.startAgent()

	dir := t.TempDir()
	ca := certs.New(t, "test")
	caFile := ca.File(t, dir, "ca.pem")
	cert, key := ca.Issue(t, certs.Request{Name: "server", Organization: []string{"bursar:coordinator"}, Hosts: []string{"127.0.0.1"}}).Files(t, dir, "server")
	peerCert, peerKey := ca.Issue(t, certs.Request{Name: "peer", Organization: []string{"bursar:coordinator"}}).Files(t, dir, "peer")
	ownCert, ownKey := ca.Issue(t, certs.Request{Name: "ops", Organization: []string{"bursar:admin"}}).Files(t, dir, "ops")
	token := access.NewToken()
	identities := filepath.Join(dir, "identities.yaml")
	if err := os.WriteFile(identities, []byte("identities: [{name: ops, role: admin, tokenHash: "+access.Hash(token)+"}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bearer := "Authorization: Bearer " + token
	secure := startTeam(t, coordinator.Config{
		TLS:        credential.ServerTLS{Cert: cert, Key: key, ClientCA: caFile},
		Identities: identities,
		Peers:      coordinator.Peers{TLS: credential.ClientTLS{CA: caFile, Cert: peerCert, Key: peerKey}},
	})
	address := func(url string) string { return url[strings.Index(url, "//")+2:] }
	return []door{
		{"leader", open.leader, address(open.leader), true, nil, []string{"-plaintext"}},
		{"standby", open.standby, address(open.standby), true, nil, []string{"-plaintext"}},
		{
			"standby with TLS", secure.standby, address(secure.standby), false,
			[]string{"--cacert", caFile, "--cert", ownCert, "--key", ownKey},
			[]string{"-cacert", caFile, "-cert", ownCert, "-key", ownKey},
		},
		{
			"standby with TLS and a token", secure.standby, address(secure.standby), false,
			[]string{"--cacert", caFile, "--header", bearer},
			[]string{"-cacert", caFile, "-H", bearer},
		},
		{
			stranger, secure.standby, address(secure.standby), false, []string{"--cacert", caFile}, []string{"-cacert", caFile},
		},
		{"agent", "http://agent", socket, true, []string{"--unix-socket", socket}, []string{"-plaintext", "-unix"}},
	}
}

// stranger is the door of somebody who shows nothing.
const stranger = "standby with TLS and nothing else"

// read is a call that every server answers, with a part of the answer. A coordinator's answer
// names the leader.
func (d door) read() (procedure, answer string) {
	if d.name == "agent" {
		return "bursar.v1.AllocationService/List", "{"
	}
	return "bursar.v1.ClusterService/Status", "leaderUrl"
}

// wrong is a request that validation refuses, before anything is passed on.
const wrong = `{"labels":{"user":"alice"},"resource":{"memoryBytes":"-1"}}`
