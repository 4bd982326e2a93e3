package check

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	wantVerified = "sslMode=VERIFY_IDENTITY and a certificate that this machine's authorities have signed"
	keyOfNobody  = "bursar-linkis-check"
)

// encryptForNobody sets a key whose private half nobody has. A server that asks for the password
// encrypted with its own key gets it encrypted with this one: an impostor in the server's place has
// a key, too.
func encryptForNobody(c *mysql.Config) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	mysql.RegisterServerPubKey(keyOfNobody, &key.PublicKey)
	c.ServerPubKey = keyOfNobody
	return nil
}

// secure sets how the connection is protected, as the parameters of the JDBC address say. On this
// machine all of them are honoured; a server elsewhere gets no password in a form that an
// impostor in its place could read.
func secure(c *mysql.Config, host string, query url.Values) error {
	mode, err := sslMode(query)
	if err != nil {
		return err
	}
	ip := net.ParseIP(host)
	local := host == "localhost" || ip != nil && ip.IsLoopback()
	switch {
	case mode == "verified":
		c.TLS = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	case local && mode == "required":
		c.TLSConfig = "skip-verify"
	case local && mode == "preferred":
		c.TLSConfig = "preferred"
	case mode == "required":
		return &SettingError{urlSetting, "TLS without verification to " + host, wantVerified}
	case !local:
		return encryptForNobody(c)
	}
	return nil
}

// sslMode reads the parameters of Connector/J and of MariaDB's driver. One that is about security
// and is not known is refused.
func sslMode(query url.Values) (string, error) {
	known := []string{"sslmode", "usessl", "requiressl", "verifyservercertificate", "trustservercertificate", "allowpublickeyretrieval"}
	values := map[string]string{}
	for name, given := range query {
		lower := strings.ToLower(name)
		value := strings.ToLower(given[len(given)-1])
		about := slices.ContainsFunc([]string{"ssl", "tls", "cert", "keystore"}, func(part string) bool { return strings.Contains(lower, part) })
		switch {
		case about && !slices.Contains(known, lower):
			return "", &SettingError{urlSetting, name, "no parameter of this kind but sslMode, useSSL, requireSSL, verifyServerCertificate; --database names another address"}
		case lower != "sslmode" && slices.Contains(known, lower) && value != "true" && value != "false":
			return "", &SettingError{urlSetting, name + "=" + value, "true or false"}
		}
		values[lower] = value
	}
	switch strings.ReplaceAll(values["sslmode"], "_", "-") {
	case "":
	case "disabled", "disable":
		return "plain", nil
	case "preferred":
		return "preferred", nil
	case "required", "trust":
		return "required", nil
	case "verify-ca", "verify-identity", "verify-full":
		return "verified", nil
	default:
		return "", &SettingError{urlSetting, "sslMode=" + values["sslmode"], "DISABLED, PREFERRED, REQUIRED or VERIFY_IDENTITY"}
	}
	switch {
	case values["usessl"] == "false":
		return "plain", nil
	case values["verifyservercertificate"] == "true":
		return "verified", nil
	case values["requiressl"] == "true":
		return "required", nil
	default:
		return "preferred", nil
	}
}

// bounds hold for all that is read from a server, even from a hostile one.
type bounds struct {
	bytes int64
	end   time.Time
	err   error // which of them was met
}

// dial makes the connection of a database.
func (b *bounds) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err //nolint:wrapcheck // the driver's caller names the database
	}
	return &boundedConn{conn, b}, nil
}

type boundedConn struct {
	net.Conn

	bounds *bounds
}

func (c *boundedConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.bounds.bytes -= int64(n)
	switch {
	case c.bounds.bytes < 0:
		c.bounds.err = fmt.Errorf("it answers with more than %d MiB: want Linkis's own database", maxBytes>>20)
		return 0, c.bounds.err
	case err != nil && !time.Now().Before(c.bounds.end):
		c.bounds.err = fmt.Errorf("it has not given all answers within %s", maxTime)
		return n, c.bounds.err
	default:
		return n, err //nolint:wrapcheck // as a connection does
	}
}

func (c *boundedConn) SetReadDeadline(t time.Time) error {
	if t.IsZero() || t.After(c.bounds.end) {
		t = c.bounds.end
	}
	return c.Conn.SetReadDeadline(t) //nolint:wrapcheck // as a connection does
}
