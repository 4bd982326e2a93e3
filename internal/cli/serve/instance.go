package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/internal/discovery"
)

// instanceOf is the ID of a coordinator in an election. It stays the same when the coordinator
// starts again, and every coordinator has another: on one machine no two listen at the same
// address, and machines that were set up alike have different names. It begins with the name that
// people know.
func instanceOf(machine, listen, base string) string {
	where := base
	if u, err := url.Parse(base); err == nil {
		where = u.Host
	}
	where = strings.Map(func(r rune) rune {
		if strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-", r) {
			return r
		}
		return '-'
	}, where)
	sum := sha256.Sum256([]byte(machine + "\n" + listen + "\n" + base))
	return where[:min(len(where), 100)] + "-" + hex.EncodeToString(sum[:4])
}

// reachable refuses a coordinator that would announce an address at which every other reaches only
// itself, or an address without the TLS that it serves. If the configuration names a loopback
// address, that is for coordinators of one machine.
func reachable(config coordinator.Config) error {
	if config.TLS.IsSet() && strings.HasPrefix(config.Advertise, "http://") {
		return &coordinator.ConfigError{Field: "advertise", Value: config.Advertise, Want: "https://: this coordinator serves TLS, and shows itself to others that do"}
	}
	if config.Advertise != "" {
		return nil
	}
	host, _, err := net.SplitHostPort(config.Listen)
	if err != nil {
		return nil //nolint:nilerr // a wrong address is told when it is listened on
	}
	ip, err := netip.ParseAddr(host)
	named := host == "" || (err == nil && ip.IsUnspecified())
	if named {
		if host, err = os.Hostname(); err != nil {
			return &coordinator.ConfigError{Field: "advertise", Want: "the URL at which others reach this coordinator: this machine does not tell its name"}
		}
	}
	if !onlyHere(host) {
		return nil
	}
	wrong := &coordinator.ConfigError{
		Field: "advertise", Want: "the URL at which agents and other coordinators reach this one, such as https://rm-1.example.com:7070: it listens on " +
			config.Listen + ", which is every machine's own (for coordinators of this machine alone, say so with advertise: http://" + config.Listen + ")",
	}
	if named { // a machine may get its name after this start
		return &coordinator.TransientConfigError{ConfigError: wrong}
	}
	return wrong
}

// onlyHere reports whether a host always names the machine that looks it up.
func onlyHere(host string) bool {
	return discovery.Loopback(host) || strings.HasPrefix(host, "localhost.") || strings.HasSuffix(host, ".localhost")
}
