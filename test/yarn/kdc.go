package yarn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/test/proc"
)

// KDC issues Kerberos tickets: Hadoop's MiniKdc.
type KDC struct {
	// Realm is the realm of all principals.
	Realm string
	// Krb5Conf is the krb5.conf with its address.
	Krb5Conf string
	// Keytab has the keys of all principals.
	Keytab string

	*server
	guardian *proc.Guardian
}

// StartKDC starts a KDC for the length of a test. It knows HTTP/localhost and the principals, given
// without the realm.
func StartKDC(tb testing.TB, principals ...string) *KDC {
	tb.Helper()
	dir, err := os.MkdirTemp("", "bursar-kdc-") //nolint:usetesting // it goes with its process
	if err != nil {
		tb.Fatal(err)
	}
	k := &KDC{Realm: "EXAMPLE.COM", Krb5Conf: filepath.Join(dir, "krb5.conf"), Keytab: filepath.Join(dir, "all.keytab"), server: &server{dir: dir}}
	if k.guardian, err = guard(dir); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the KDC said at last:\n%s", k.tail())
		}
		k.kill()
		if err := k.guardian.Dismiss(); err != nil {
			tb.Error(err)
		}
	})
	if k.jars, err = installed("yarn-" + Hadoop34); err != nil {
		tb.Fatal(err)
	}
	if k.java, err = installed("yarn-java"); err != nil {
		tb.Fatal(err)
	}
	port, err := nextPort()
	if err != nil {
		tb.Fatal(err)
	}
	name, domain, _ := strings.Cut(k.Realm, ".")
	settings := fmt.Sprintf("org.name=%s\norg.domain=%s\nkdc.bind.address=%s\nkdc.port=%d\ntransport=TCP\n", name, domain, host, port)
	if err := writeFile(dir, "kdc.properties", settings); err != nil {
		tb.Fatal(err)
	}
	k.run = append([]string{
		"org.apache.hadoop.minikdc.MiniKdc", dir, filepath.Join(dir, "kdc.properties"), k.Keytab, "HTTP/" + host,
	}, principals...)
	if err := k.start(); err != nil {
		tb.Fatal(err)
	}
	err = until(tb.Context(), func(context.Context) error {
		if !k.said("Do <CTRL-C>") {
			return errors.New("the KDC is not up")
		}
		return nil
	})
	if err == nil {
		err = os.Chmod(k.Keytab, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// options returns the Java options to use the KDC.
func (k *KDC) options() []string {
	return []string{"-Djava.security.krb5.conf=" + k.Krb5Conf, "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED"}
}
