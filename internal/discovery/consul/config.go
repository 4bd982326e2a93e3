package consul

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Config configures the connection to Consul. The zero value of a field means its default. Names in
// capitals in a default are environment variables; the configuration has priority over them.
type Config struct {
	// Address is the address of the Consul agent on this machine: host:port, http://host:port,
	// https://host:port or unix:///path. It must be one agent, not a load balancer: a registration
	// and its health check belong to the agent that received them. Default CONSUL_HTTP_ADDR,
	// otherwise 127.0.0.1:8500.
	Address string `yaml:"address"`
	// Scheme is http or https, for an address without a scheme. Default: https if CONSUL_HTTP_SSL
	// is true, otherwise http.
	Scheme string `yaml:"scheme"`
	// Token is the ACL token. It is better to keep it out of this file, with TokenFile. Default:
	// the content of the file that CONSUL_HTTP_TOKEN_FILE names, otherwise CONSUL_HTTP_TOKEN,
	// otherwise none.
	Token string `yaml:"token"`
	// TokenFile holds the ACL token and nothing else. It must not be readable for everybody (0600
	// or 0640). It is read again when it changes. Default: none.
	TokenFile string `yaml:"tokenFile"`
	// Datacenter is the datacenter of the coordinators. A coordinator must use the datacenter of
	// its own Consul agent. Default: the Consul agent's.
	Datacenter string `yaml:"datacenter"`
	// Namespace and Partition are for Consul Enterprise. Default CONSUL_NAMESPACE and
	// CONSUL_PARTITION.
	Namespace string `yaml:"namespace"`
	Partition string `yaml:"partition"`
	TLS       TLS    `yaml:"tls"`

	// Service is the service name of the coordinators' registrations. Coordinators with the same
	// name are one cluster. Default bursar-coordinator.
	Service string `yaml:"service"`
	// WaitTime is how long Consul may hold a query while its answer stays the same. A longer time
	// means less work for Consul, and does not delay changes. Default 1 min, at most 10 min.
	WaitTime time.Duration `yaml:"waitTime"`
	// Timeout is how long any other call to Consul may take. Default 5 s.
	Timeout time.Duration `yaml:"timeout"`
}

// TLS configures the certificates of the connection to Consul. The files are read again when they
// change.
type TLS struct {
	// CA is a file of certificates in PEM. Default CONSUL_CACERT, CONSUL_CAPATH, otherwise those of
	// the system.
	CA string `yaml:"ca"`
	// Cert and Key are files in PEM, for a Consul that verifies its callers. Default
	// CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY. The key must not be readable for everybody.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// ServerName is the name that Consul's certificate must have. Default CONSUL_TLS_SERVER_NAME,
	// otherwise the host of the address.
	ServerName string `yaml:"serverName"`
	// InsecureSkipVerify accepts any certificate of Consul. Then everybody on the way to Consul can
	// read the token. Default: true if CONSUL_HTTP_SSL_VERIFY is false, otherwise false.
	InsecureSkipVerify bool `yaml:"insecureSkipVerify"`
}

// ConfigError rejects a field of a Config. It never contains a secret.
type ConfigError struct {
	// Field is its path, such as tls.key.
	Field string
	// Value is the given value; empty if it must not be shown.
	Value string
	// Want describes a valid value.
	Want string
}

func (e *ConfigError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("consul.%s: want %s", e.Field, e.Want)
	}
	return fmt.Sprintf("consul.%s: %q: want %s", e.Field, e.Value, e.Want)
}

// WithDefaults returns the configuration with all defaults except those from the environment, which
// New adds.
func (c Config) WithDefaults() Config {
	if c.Service == "" {
		c.Service = "bursar-coordinator"
	}
	if c.WaitTime == 0 {
		c.WaitTime = time.Minute
	}
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	return c
}

// A service name must also be valid as a label of a DNS name.
var serviceName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)

// Validate returns an error about the first invalid field. The error is a *ConfigError. It opens no
// file and makes no call.
func (c Config) Validate() error {
	c = c.WithDefaults()
	if err := c.validateAddress(); err != nil {
		return err
	}
	for _, field := range []struct{ name, value string }{{"datacenter", c.Datacenter}, {"namespace", c.Namespace}, {"partition", c.Partition}} {
		if strings.ContainsAny(field.value, " \t\r\n/?&#") {
			return &ConfigError{field.name, field.value, "a name without blanks and slashes"}
		}
	}
	switch {
	case c.Token != "" && c.TokenFile != "":
		return &ConfigError{"tokenFile", c.TokenFile, "a token or a file of one, not both"}
	case strings.ContainsAny(c.Token, " \t\r\n"):
		return &ConfigError{"token", "", "a token without blanks"}
	case c.TLS.Cert != "" && c.TLS.Key == "":
		return &ConfigError{"tls.key", "", "the private key of tls.cert"}
	case c.TLS.Key != "" && c.TLS.Cert == "":
		return &ConfigError{"tls.cert", "", "the certificate of tls.key"}
	case !serviceName.MatchString(c.Service):
		return &ConfigError{"service", c.Service, "letters, digits and dashes, at most 63"}
	case c.WaitTime < time.Second || c.WaitTime > 10*time.Minute:
		return &ConfigError{"waitTime", c.WaitTime.String(), "between 1s and 10m"}
	case c.Timeout < 100*time.Millisecond || c.Timeout > time.Minute:
		return &ConfigError{"timeout", c.Timeout.String(), "between 100ms and 1m"}
	}
	return nil
}

func (c Config) validateAddress() error {
	const want = "host:port, http://host:port, https://host:port or unix:///path"
	switch c.Scheme {
	case "", "http", "https":
	default:
		return &ConfigError{"scheme", c.Scheme, "http or https"}
	}
	scheme, rest, found := strings.Cut(c.Address, "://")
	switch {
	case c.Address == "":
		return nil
	case strings.Contains(c.Address, "@"):
		return &ConfigError{"address", "", "an address without a user: Consul takes a token"}
	case found && scheme == "unix":
		if !strings.HasPrefix(rest, "/") {
			return &ConfigError{"address", c.Address, want}
		}
		return nil
	case found && scheme != "http" && scheme != "https":
		return &ConfigError{"address", c.Address, want}
	case found && c.Scheme != "" && c.Scheme != scheme:
		return &ConfigError{"scheme", c.Scheme, "the scheme of the address, or none"}
	case !found:
		rest = c.Address
	}
	u, err := url.Parse("http://" + rest)
	if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return &ConfigError{"address", c.Address, want}
	}
	return nil
}
