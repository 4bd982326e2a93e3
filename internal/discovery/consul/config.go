package consul

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Config says how to reach Consul. The zero value of a field is its default. If a default names a
// variable, it is an environment variable; the configuration goes before it.
type Config struct {
	// Address is that of the Consul agent on this machine: host:port, http://host:port,
	// https://host:port or unix:///path. It must be one agent, not a load balancer: a registration
	// and its health check belong to the agent that they were sent to. Default CONSUL_HTTP_ADDR,
	// else 127.0.0.1:8500.
	Address string `yaml:"address"`
	// Scheme is http or https, for an address that does not say. Default: https if CONSUL_HTTP_SSL
	// is true, else http.
	Scheme string `yaml:"scheme"`
	// Token is the ACL token. It is better to keep it out of this file, with TokenFile. Default:
	// what is in the file that CONSUL_HTTP_TOKEN_FILE names, else CONSUL_HTTP_TOKEN, else none.
	Token string `yaml:"token"`
	// TokenFile holds the ACL token and nothing else. It must not be readable for everybody (0600
	// or 0640). It is read again when it changes. Default: none.
	TokenFile string `yaml:"tokenFile"`
	// Datacenter is the datacenter in which coordinators are looked for. A coordinator needs the
	// one of its own Consul agent. Default: the Consul agent's.
	Datacenter string `yaml:"datacenter"`
	// Namespace and Partition are those of Consul Enterprise. Default CONSUL_NAMESPACE and
	// CONSUL_PARTITION.
	Namespace string `yaml:"namespace"`
	Partition string `yaml:"partition"`
	TLS       TLS    `yaml:"tls"`

	// Service is the name that coordinators are registered by. Coordinators of one name are one
	// cluster. Default bursar-coordinator.
	Service string `yaml:"service"`
	// WaitTime is how long Consul may hold a query whose answer has not changed. With a longer time
	// Consul has less work. A change is seen at once in any case. Default 1 min, at most 10 min.
	WaitTime time.Duration `yaml:"waitTime"`
	// Timeout is how long any other call to Consul may take. Default 5 s.
	Timeout time.Duration `yaml:"timeout"`
}

// TLS says how Consul is recognized and what it recognizes us by. The files are read again when
// they change.
type TLS struct {
	// CA is a file of certificates in PEM. Default CONSUL_CACERT, CONSUL_CAPATH, else those of the
	// system.
	CA string `yaml:"ca"`
	// Cert and Key are files in PEM, for a Consul that verifies its callers. Default
	// CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY. The key must not be readable for everybody.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// ServerName is the name that Consul's certificate must have. Default CONSUL_TLS_SERVER_NAME,
	// else the host of the address.
	ServerName string `yaml:"serverName"`
	// InsecureSkipVerify accepts any certificate of Consul. Then everybody on the way to Consul can
	// read the token. Default: true if CONSUL_HTTP_SSL_VERIFY is false, else false.
	InsecureSkipVerify bool `yaml:"insecureSkipVerify"`
}

// ConfigError names the field of a Config that cannot be used. It never holds a secret.
type ConfigError struct {
	// Field is its path, such as tls.key.
	Field string
	// Value is what was there; empty if it must not be shown.
	Value string
	// Want says what would be right.
	Want string
}

func (e *ConfigError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("consul.%s: want %s", e.Field, e.Want)
	}
	return fmt.Sprintf("consul.%s: %q: want %s", e.Field, e.Value, e.Want)
}

// WithDefaults returns the configuration with every default filled in but those of the
// environment, which New takes.
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

// A service's name is a label of a DNS name as well.
var serviceName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)

// Validate reports the first field that cannot be used. The error is a *ConfigError. It opens no
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
