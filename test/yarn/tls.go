package yarn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

const keystorePassword = "changeit"

// CA returns the file with the ResourceManagers' certificate, if they use TLS.
func (c *Cluster) CA() string { return filepath.Join(c.dir, "ca.pem") }

// certify makes a key and a certificate for localhost with Java's own tool, and a configuration
// that trusts it.
func (c *Cluster) certify(ctx context.Context) (*tls.Config, error) {
	store := filepath.Join(c.dir, "keys.p12")
	for _, arguments := range [][]string{
		{"-genkeypair", "-keyalg", "EC", "-storetype", "PKCS12", "-dname", "CN=" + host, "-ext", "SAN=dns:" + host, "-validity", "2"},
		{"-exportcert", "-rfc", "-file", c.CA()},
	} {
		all := append([]string{"sun.security.tools.keytool.Main"}, arguments...)
		all = append(all, "-alias", "rm", "-keystore", store, "-storepass", keystorePassword)
		said, err := run(ctx, exec.Command(c.java, all...)) //nolint:gosec,noctx // a test's own Java, which run ends
		if err != nil {
			return nil, errors.New("keytool: " + err.Error() + ": " + said)
		}
	}
	certificate, err := os.ReadFile(c.CA())
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(certificate) {
		return nil, errors.New("keytool: no certificate in " + c.CA())
	}
	return &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}, nil
}

// writeTLS writes a server's configuration of its key.
func (c *Cluster) writeTLS(folder string) error {
	if !c.options.TLS {
		return nil
	}
	return properties{
		"ssl.server.keystore.location": filepath.Join(c.dir, "keys.p12"), "ssl.server.keystore.type": "PKCS12",
		"ssl.server.keystore.password": keystorePassword, "ssl.server.keystore.keypassword": keystorePassword,
	}.write(folder, "ssl-server.xml", "")
}
