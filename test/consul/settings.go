package consul

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/bursar/bursar/test/proc"
)

// Options describe a server. The zero value is one server on loopback, over HTTP and without access
// control.
type Options struct {
	// Bind is the address to listen on. Default 127.0.0.1.
	Bind string
	// Prefix is a command that runs the server's command, such as ip netns exec NAME. It must
	// become the server, and not wait for it.
	Prefix []string
	// Token switches access control on: only this token, a UUID, has rights, and it has all of
	// them.
	Token string
	// Cert, Key and CA are files in PEM. With them the server speaks HTTPS and no HTTP.
	Cert, Key, CA string
	// VerifyClients lets in only clients with a certificate of CA.
	VerifyClients bool
	// Patient makes a server count as dead after some seconds, Consul's default, instead of half a
	// second, and doubles the leader's lease. It is for tests in which no server dies, also on a
	// busy machine: if an agent reports a failed check during an election, it does not report it
	// again for half a minute or longer.
	Patient bool
}

// ports are the ports of one server.
type ports struct {
	HTTP    int `json:"http"`
	HTTPS   int `json:"https"`
	DNS     int `json:"dns"`
	GRPC    int `json:"grpc"`
	GRPCTLS int `json:"grpc_tls"`
	Server  int `json:"server"`
	Serf    int `json:"serf_lan"`
	WAN     int `json:"serf_wan"`
}

// none switches a listener off.
const none = -1

func choosePorts(bind string, https bool) (ports, error) {
	p := ports{HTTP: none, HTTPS: none, GRPC: none, GRPCTLS: none, WAN: none}
	wanted := []*int{&p.DNS, &p.Server, &p.Serf}
	if https {
		wanted = append(wanted, &p.HTTPS)
	} else {
		wanted = append(wanted, &p.HTTP)
	}
	for _, port := range wanted {
		var err error
		if *port, err = proc.FreePort(bind); err != nil {
			return p, err
		}
	}
	return p, nil
}

// configure writes the server's configuration into its folder.
func (s *Server) configure(expect int, join []string) error {
	settings := map[string]any{
		"server": true, "bootstrap_expect": expect, "node_name": s.Node, "datacenter": "dc1", "data_dir": filepath.Join(s.dir, "data"),
		"bind_addr": s.bind, "client_addr": s.bind, "advertise_addr": s.bind, "ports": s.ports,
		"retry_join": join, "retry_interval": "200ms",
		"performance": map[string]any{"raft_multiplier": 1},
		"gossip_lan":  map[string]any{"gossip_interval": "50ms", "probe_interval": "200ms", "probe_timeout": "100ms", "suspicion_mult": 2},
		"connect":     map[string]any{"enabled": false}, "disable_update_check": true, "log_level": "warn",
		"skip_leave_on_interrupt": true, "leave_on_terminate": false,
		"dns_config": map[string]any{"allow_stale": false},
	}
	if s.options.Patient {
		delete(settings, "gossip_lan")
		settings["performance"] = map[string]any{"raft_multiplier": 2}
	}
	if s.options.Token != "" {
		settings["acl"] = map[string]any{
			"enabled": true, "default_policy": "deny",
			"tokens": map[string]any{"initial_management": s.options.Token, "agent": s.options.Token},
		}
	}
	if s.options.Cert != "" {
		settings["tls"] = map[string]any{"https": map[string]any{
			"ca_file": s.options.CA, "cert_file": s.options.Cert, "key_file": s.options.Key, "verify_incoming": s.options.VerifyClients,
		}}
	}
	text, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, "consul.json"), text, 0o600)
}
