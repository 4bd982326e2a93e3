package yarn_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/keytab"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/test/yarn"
)

// refused checks for an error with all of these parts.
func refused(t *testing.T, p providers.Provider, parts ...string) {
	t.Helper()
	_, err := p.Snapshot(t.Context())
	if unavailable, none := providers.Unavailable(err); !unavailable || none {
		t.Fatalf("got %v", err)
	}
	t.Logf("refused: %v", err)
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

func TestTickets(t *testing.T) {
	t.Parallel()
	kdc := yarn.StartKDC(t, "bursar")
	// In seconds.
	c := yarn.Start(t, yarn.Options{KDC: kdc, Core: map[string]string{"hadoop.http.authentication.token.validity": "2"}})
	settings := func(changes map[string]string) map[string]string {
		all := map[string]string{"auth": "kerberos", "principal": "bursar@" + kdc.Realm, "keytab": kdc.Keytab, "krb5Conf": kdc.Krb5Conf}
		maps.Copy(all, changes)
		return all
	}
	const idle = `
root limit 65536/64 used 0/0 guaranteed 65536/64 apps 0=0+0
root.default limit 65536/64 used 0/0 guaranteed 65536/64 apps 0=0+0 RUNNING
`
	right := open(t, c, settings(nil))
	expect(t, right, idle)

	// The cookie is valid for two seconds: the readings continue beyond that.
	end, again := time.After(5*time.Second), time.NewTicker(200*time.Millisecond)
	defer again.Stop()
	for going := true; going; {
		if _, err := right.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-end:
			going = false
		case <-again.C:
		}
	}
	expectApplications(t, right, "known=false ended=false queue=", "application_1_0001")

	wrong := filepath.Join(t.TempDir(), "wrong.keytab")
	writeKeytab(t, wrong, "bursar", kdc.Realm)
	for name, test := range map[string]struct {
		settings map[string]string
		says     []string
	}{
		"nothing shown":                        {map[string]string{}, []string{"401"}},
		"a wrong key":                          {settings(map[string]string{"keytab": wrong}), []string{"the key in the keytab is not that of the principal"}},
		"a wrong principal":                    {settings(map[string]string{"principal": "nobody@" + kdc.Realm, "keytab": keytabOf(t, "nobody", kdc.Realm)}), []string{"does not know the principal"}},
		"a service that the KDC does not know": {settings(map[string]string{"servicePrincipal": "HTTP/elsewhere"}), []string{"does not know the service HTTP/elsewhere"}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, open(t, c, test.settings), test.says...) })
	}
}

// TestTLS: a ResourceManager that uses only TLS, with its own certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	c := yarn.Start(t, yarn.Options{TLS: true})
	p := open(t, c, map[string]string{"ca": c.CA()})
	id := c.Submit(t, yarn.Application{Queue: "default", MemoryMiB: 2048, VCores: 2})
	c.AwaitAllocated(t, id)
	expect(t, p, `
root limit 65536/64 used 2048/2 guaranteed 65536/64 apps 1=1+0
root.default limit 65536/64 used 2048/2 guaranteed 65536/64 apps 1=1+0 RUNNING
`)
	expectApplications(t, p, "known=true ended=false queue=root.default @ 2048/2", id)
	refused(t, open(t, c, nil), "certificate")
	refused(t, open(t, c, map[string]string{"addresses": strings.Replace(c.URL(), "https", "http", 1)}))
}

func keytabOf(t *testing.T, principal, realm string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), principal+".keytab")
	writeKeytab(t, path, principal, realm)
	return path
}

// writeKeytab makes a keytab with keys that no KDC has issued.
func writeKeytab(t *testing.T, path, principal, realm string) {
	t.Helper()
	made := keytab.New()
	for _, encryption := range []int32{17, 18} { // aes128-cts-hmac-sha1-96, aes256
		if err := made.AddEntry(principal, realm, "not the one", time.Unix(1, 0), 1, encryption); err != nil {
			t.Fatal(err)
		}
	}
	content, err := made.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
