package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bursar/bursar/agent/machine"
	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery/consul"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// Defaults of Config.
const (
	DefaultSocket   = "/run/bursar/agent.sock"
	DefaultStateDir = "/var/lib/bursar/agent"
	DefaultTick     = 5 * time.Second
	DefaultPatience = 10 * time.Second
)

// Config is an agent's configuration. The zero value of a field is its default.
type Config struct {
	// HostID names the host in the whole cluster. Default: the id that the host had before, even if
	// the machine has another name now; at first the machine's host name. It must stay the same as
	// long as engines run.
	HostID string `yaml:"hostId" reload:"start"`
	// Address is where this host's engines can be reached, for clients; default: the machine's
	// host name.
	Address string `yaml:"address" reload:"start"`
	// Labels are what requests can ask of a host.
	Labels map[string]string `yaml:"labels" reload:"live"`
	// Cluster is the name of the cluster that this host belongs to, as its coordinators have it in
	// their configuration. The agent calls no coordinator of another cluster. If another name is
	// set, the host moves to that cluster at the agent's next start. Default: the cluster that
	// registered the host first, with its store.
	Cluster string `yaml:"cluster" reload:"start"`
	// Discovery is how coordinators are found: "static" by the list in Coordinators, "consul" in
	// Consul's catalog. Default: consul if any field of Consul is set, else static.
	Discovery string `yaml:"discovery" reload:"start"`
	// Coordinators are the base URLs of all coordinators, such as https://10.0.0.1:7070. Each of
	// them takes any call. Default: http://127.0.0.1:7070.
	Coordinators []string `yaml:"coordinators" reload:"start"`
	// Consul is where coordinators are found if Discovery is "consul". All of it has defaults.
	Consul consul.Config `yaml:"consul" reload:"start"`
	// TLS is for coordinators whose URL begins with https.
	TLS credential.ClientTLS `yaml:"tls" reload:"start"`
	// TokenFile holds the bearer token that the agent shows to coordinators, and nothing else.
	// Default: none.
	TokenFile string `yaml:"tokenFile" reload:"start"`

	// Socket is the path of the Unix socket. Default /run/bursar/agent.sock. If its directory is
	// missing, it is made with mode 0755, so that every user can reach the socket. An agent that
	// runs as root refuses a directory that others own or may write to.
	Socket string `yaml:"socket" reload:"start"`
	// SocketMode is its mode in octal. Default "0666": every user of the machine may call, as
	// themselves.
	SocketMode string `yaml:"socketMode" reload:"start"`
	// SocketGroup is the group that owns it, by name or number. Default: the agent's own.
	SocketGroup string `yaml:"socketGroup" reload:"start"`
	// LoopbackListen serves the same on TCP, such as 127.0.0.1:7071. Default: not at all. TCP does
	// not say who calls, so everybody on the machine could act as anybody: it needs
	// LoopbackTrusted.
	LoopbackListen string `yaml:"loopbackListen" reload:"start"`
	// LoopbackTrusted says that everybody who can connect to LoopbackListen may act as any user.
	// The actor is "local@" and the host's id. Default false, which refuses LoopbackListen.
	LoopbackTrusted bool `yaml:"loopbackTrusted" reload:"start"`
	// TrustedUsers are users who may act as any user and set priorities: the account of the
	// EngineConnManager, for example. They are names; a number is a uid if no account has it for a
	// name. Root and the agent's own account always may.
	TrustedUsers []string `yaml:"trustedUsers" reload:"live"`

	// StateDir is where the agent keeps what it must know after a restart. Default
	// /var/lib/bursar/agent. It must be the agent's user's, and nobody else may write to it. If
	// that user is root, nobody else may write to the folders above it either.
	StateDir string `yaml:"stateDir" reload:"start"`

	// Capacity bounds what the host gives away, by dimension: memory as 64GiB, cpu as 16 or 1500m,
	// instances, and custom countables such as gpu. The host has no custom countable that is not
	// listed. Memory and cpu are never more than what the machine and its cgroups allow. Default:
	// as much memory and cpu as they allow, and any number of instances.
	Capacity map[string]string `yaml:"capacity" reload:"live"`
	// Protected is the part of the capacity that is never given away, written like Capacity. If it
	// is all that there is, a warning says so. Default: nothing.
	Protected map[string]string `yaml:"protected" reload:"live"`
	// Safety is measured memory that is kept free for the machine itself. Default 128MiB; "0" keeps
	// none. With more, the machine is safer if engines use memory that is not measured, and engines
	// get less.
	Safety string `yaml:"safety" reload:"live"`
	// Cgroup is the cgroup whose limits bound what engines can have, as a path below the cgroup
	// mount. Default: the agent's own. If systemd runs the agent as a service, that one's limits
	// are not for engines; then the default is the one of bursar-engines.slice. Set it if engines
	// run elsewhere.
	Cgroup string `yaml:"cgroup" reload:"start"`

	// WorkDirs are the directories that engines write to. If one of them has too little space, the
	// host takes no new engines. Default: none.
	WorkDirs []machine.WorkDir `yaml:"workDirs" reload:"live"`
	// Countables are custom countables that a command counts, such as gpu. If Capacity names one
	// too, the host has the lesser number. Default: none.
	Countables map[string]machine.CountableConfig `yaml:"countables" reload:"live"`
	// HealthCommand is a program that says whether the host is fit for engines. Default: none.
	HealthCommand machine.HealthCommand `yaml:"healthCommand" reload:"live"`
	// Engines says how engines are kept here.
	Engines EnginesConfig `yaml:"engines"`
	// Callers bounds what one user may ask for.
	Callers CallersConfig `yaml:"callers" reload:"live"`

	// Tick is the time between two measurements. Default 5 s. With a shorter time the agent notices
	// more and uses more CPU. It notices the end of an engine at once if the kernel has pidfds (5.3
	// and later).
	Tick time.Duration `yaml:"tick" reload:"live"`
	// Patience is how long a call without a deadline waits until a coordinator answers, in addition
	// to the time for which it asked to wait for resources. Default 10 s, which is enough for a
	// change of leader. A release whose caller has gone goes on for it, but for 15 s at most.
	Patience time.Duration `yaml:"patience" reload:"live"`
	// LogLevel is how much is logged: debug, info, warn or error. The flag --log-level overrides
	// it. Default info.
	LogLevel string `yaml:"logLevel" reload:"live"`
}

// The ways to find coordinators.
const (
	DiscoveryStatic = "static"
	DiscoveryConsul = "consul"
)

// ConfigError names the field of a configuration that cannot be used.
type ConfigError struct {
	Field, Value, Want string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s: %q: want %s", e.Field, e.Value, e.Want)
}

// settings are a configuration that was checked.
type settings struct {
	Config

	// machineName is the machine's host name if HostID is a default; empty: HostID is configured.
	machineName string

	capacity   resource.Vector // cap; memory and cpu only if configured
	protected  resource.Vector
	safety     int64 // bytes; as host.Options takes it
	socketMode fs.FileMode
	policies   policy.Set
	workDirs   []machine.WorkDirSettings
	countables map[string]machine.CountableSettings // by name
	health     machine.HealthSettings
}

// WithDefaults returns the configuration with the way of discovery and the coordinators filled in.
// The error is that of Validate.
func (c Config) WithDefaults() (Config, error) {
	s, err := c.resolve()
	s.HostID = c.HostID // so that it is still known to be a default
	return s.Config, err
}

// Validate returns the first thing that is wrong as a *ConfigError.
func (c Config) Validate() error {
	_, err := c.resolve()
	return err
}

// resolve fills in the defaults and reads every field.
func (c Config) resolve() (settings, error) {
	c.StateDir = orDefault(c.StateDir, DefaultStateDir)
	machineName := ""
	if c.HostID == "" || c.Address == "" {
		name, err := os.Hostname()
		if err != nil {
			return settings{}, fmt.Errorf("host name: %w", err)
		}
		if c.HostID == "" {
			machineName, c.HostID = name, orDefault(statefile.HostOf(c.StateDir), name)
		}
		c.Address = orDefault(c.Address, name)
	}
	c.Socket = orDefault(c.Socket, DefaultSocket)
	c.SocketMode = orDefault(c.SocketMode, "0666")
	c.Safety = orDefault(c.Safety, "128MiB")
	c.Tick = orDefault(c.Tick, DefaultTick)
	c.Patience = orDefault(c.Patience, DefaultPatience)
	if c.Discovery == "" {
		c.Discovery = DiscoveryStatic
		if c.Consul != (consul.Config{}) {
			c.Discovery = DiscoveryConsul
		}
	}
	if len(c.Coordinators) == 0 && c.Discovery == DiscoveryStatic {
		c.Coordinators = []string{"http://127.0.0.1:7070"}
	}
	s := settings{Config: c, machineName: machineName}
	for _, check := range []func() error{
		s.checkNames, s.checkDiscovery, s.checkSocket, s.checkLoopback, s.checkResources, s.checkTimes, s.resolveLaunch, s.checkAccounts, s.resolveCgroups,
		s.checkPolicies, s.checkCallers, s.checkLogLevel, s.checkHost,
	} {
		if err := check(); err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

func orDefault[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}

func (s *settings) checkNames() error {
	if s.Cluster != "" && !clusterid.IsCluster(s.Cluster) {
		return &ConfigError{"cluster", s.Cluster, "1 to 64 letters, digits, - and _"}
	}
	// As the contract has it.
	if !identity.IsHostID(s.HostID) {
		return &ConfigError{"hostId", s.HostID, "a letter or digit, then up to 252 letters, digits, and . _ : -"}
	}
	if len(s.Address) > 512 {
		return &ConfigError{"address", s.Address, "at most 512 bytes"}
	}
	if _, err := label.FromMap(s.Labels); err != nil {
		return &ConfigError{"labels", fmt.Sprint(s.Labels), err.Error()}
	}
	return nil
}

func (s *settings) checkDiscovery() error {
	switch s.Discovery {
	case DiscoveryStatic:
		if s.Consul != (consul.Config{}) {
			return &ConfigError{"discovery", s.Discovery, `"consul", or no section consul`}
		}
	case DiscoveryConsul:
		if len(s.Coordinators) > 0 {
			return &ConfigError{"coordinators", strings.Join(s.Coordinators, ","), "nothing, as Consul says where they are; or discovery: static"}
		}
		err := s.Consul.Validate()
		if wrong, ok := errors.AsType[*consul.ConfigError](err); ok {
			return &ConfigError{"consul." + wrong.Field, wrong.Value, wrong.Want}
		}
		return err //nolint:wrapcheck // there is none
	default:
		return &ConfigError{"discovery", s.Discovery, `"static" or "consul"`}
	}
	return nil
}

func (s *settings) checkSocket() error {
	// The kernel accepts 107 bytes and a zero.
	if !filepath.IsAbs(s.Socket) || len(s.Socket) > 107 {
		return &ConfigError{"socket", s.Socket, "an absolute path of at most 107 bytes"}
	}
	if !filepath.IsAbs(s.StateDir) {
		return &ConfigError{"stateDir", s.StateDir, "an absolute path"}
	}
	mode, err := strconv.ParseUint(s.SocketMode, 8, 32)
	if err != nil || mode > 0o777 {
		return &ConfigError{"socketMode", s.SocketMode, `an octal mode such as "0660"`}
	}
	s.socketMode = fs.FileMode(mode)
	return nil
}

func (s *settings) checkLoopback() error {
	if s.LoopbackListen == "" {
		return nil
	}
	address, err := netip.ParseAddrPort(s.LoopbackListen)
	if err != nil || !address.Addr().IsLoopback() {
		return &ConfigError{"loopbackListen", s.LoopbackListen, "a loopback address with a port, such as 127.0.0.1:7071"}
	}
	if !s.LoopbackTrusted {
		return &ConfigError{
			"loopbackListen", s.LoopbackListen,
			"loopbackTrusted: true next to it, because TCP does not tell who calls and lets everybody on this machine act as anyone; or nothing, and the socket",
		}
	}
	return nil
}

func (s *settings) checkResources() error {
	var err error
	if s.capacity, err = resource.ParseVector(s.Capacity); err != nil {
		return ofQuantity("capacity.", err)
	}
	if s.protected, err = resource.ParseVector(s.Protected); err != nil {
		return ofQuantity("protected.", err)
	}
	if s.safety, err = resource.ParseMemory(s.Safety); err != nil {
		wrong := ofQuantity("", err)
		wrong.Field = "safety"
		return wrong
	}
	if s.safety == 0 {
		s.safety = -1 // to host.Options zero means its default
	}
	return nil
}

// ofQuantity returns the error of a quantity that cannot be read, with its field below another.
func ofQuantity(within string, err error) *ConfigError {
	if of, ok := errors.AsType[*resource.FieldError](err); ok {
		return &ConfigError{within + of.Field, of.Value, of.Want}
	}
	return &ConfigError{strings.TrimSuffix(within, "."), "", err.Error()}
}

func (s *settings) checkTimes() error {
	if s.Tick < 100*time.Millisecond || s.Tick > time.Minute {
		return &ConfigError{"tick", s.Tick.String(), "100ms to 1m"}
	}
	if s.Patience < 0 || s.Patience > time.Hour {
		return &ConfigError{"patience", s.Patience.String(), "0 to 1h"}
	}
	return nil
}

// limits returns the host's capacity: the machine's resources and the counts of commands, capped by
// the configuration.
func (s *settings) limits(memoryBytes, cpuMillis int64, counts map[string]int64) *bursarv1.Resource {
	capped := s.capacity
	for _, measured := range []struct {
		dimension string
		has       int64
	}{{resource.Memory, memoryBytes}, {resource.CPU, cpuMillis}} {
		quantity := measured.has
		if most, set := s.capacity.Get(measured.dimension); set {
			quantity = min(quantity, most)
		}
		capped = capped.With(measured.dimension, quantity)
	}
	return convert.VectorToProto(withCounts(capped, counts))
}

// withCounts returns the capacity with the countables in it, each at most its configured cap.
func withCounts(capacity resource.Vector, amounts map[string]int64) resource.Vector {
	for name, amount := range amounts {
		if most, capped := capacity.Get(name); capped {
			amount = min(amount, most)
		}
		capacity = capacity.With(name, amount)
	}
	return capacity
}
