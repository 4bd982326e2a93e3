package docs

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The commands that docs/operations.md shows make certificates that a coordinator and an agent can
// use.
func TestCommandsForCertificatesWork(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	script.WriteString("set -e\n")
	_, after, _ := strings.Cut(string(manual), "    # the CA:")
	for line := range strings.Lines("    # the CA:" + after) {
		command, isCommand := strings.CutPrefix(line, "    ")
		if !isCommand {
			break
		}
		script.WriteString(command)
	}
	dir := t.TempDir()
	cmd := exec.Command("/bin/sh", "-c", script.String())
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script.String(), out)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	for _, issued := range []struct {
		file, name, role string
		usage            x509.ExtKeyUsage
	}{
		{"rm-1", "rm-1.example.com", "bursar:coordinator", x509.ExtKeyUsageServerAuth},
		{"rm-1", "rm-1", "bursar:coordinator", x509.ExtKeyUsageClientAuth},
		{"rm-1", "10.0.0.11", "bursar:coordinator", x509.ExtKeyUsageServerAuth},
		{"vm-17", "", "bursar:agent", x509.ExtKeyUsageClientAuth},
	} {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, issued.file+".pem"), filepath.Join(dir, issued.file+".key"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: trusted, DNSName: issued.name, KeyUsages: []x509.ExtKeyUsage{issued.usage}})
		if err != nil || pair.Leaf.Subject.CommonName != issued.file || len(pair.Leaf.Subject.Organization) != 1 || pair.Leaf.Subject.Organization[0] != issued.role {
			t.Errorf("%s for %q: %v, %s", issued.file, issued.name, err, pair.Leaf.Subject)
		}
	}
}
