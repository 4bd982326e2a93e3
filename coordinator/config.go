package coordinator

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/outputs"
	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/discovery/consul"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// Config says how a coordinator runs. The zero value of a field is its default.
type Config struct {
	// Listen is the address to serve on, with HTTP/1.1 and HTTP/2, and with TLS if that is
	// configured. Default 127.0.0.1:7070. An address that is not a loopback address needs TLS, and
	// Identities or TLS.ClientCA. Without them it is refused, unless Insecure is set.
	Listen string `yaml:"listen" reload:"start"`
	// Insecure allows Listen to be a network address without TLS. Without Identities and
	// TLS.ClientCA, everybody who can connect may then do everything and act as any user. Status
	// and the log warn of it.
	Insecure bool `yaml:"insecure" reload:"start"`
	// TLS is the server's certificate, and the CA of the client certificates that it accepts.
	TLS credential.ServerTLS `yaml:"tls" reload:"start"`
	// Identities is a file of permitted callers with the SHA-256 of their tokens; bursar token
	// create writes it. If it is set, nobody else may call, not even over loopback. A changed file
	// comes into force within 2 s, all of it or nothing. Default: none. Then root and the
	// coordinator's own user may do everything over loopback, and other users of the machine may
	// act only for themselves.
	Identities string `yaml:"identities" reload:"start"`
	// Peers is how this coordinator and the other coordinators authenticate to each other.
	Peers Peers `yaml:"peers" reload:"start"`
	// AuditLog is a file. It gets a line of JSON for every call that is refused because of its
	// caller, and for every administrative call. Its mode is 0600. If it is moved away, it is made
	// again. If root writes it, the file and the folders above it must be root's. Default: the
	// records go to the log, with audit=true.
	AuditLog string `yaml:"auditLog" reload:"start"`
	// Advertise is the base URL at which agents, clients and other coordinators reach this one,
	// such as https://rm-1:7070. Default: the address in Listen; if that is every address of the
	// machine, the machine's host name. It is needed if the coordinator stands for election and
	// listens on a loopback address.
	Advertise string `yaml:"advertise" reload:"start"`
	// Cluster names the coordinators that share a store and an election: letters, digits, - and _.
	// Default bursar.
	Cluster string `yaml:"cluster" reload:"start"`
	// ReplacesStores are the ids of stores that this one has replaced, at most 16. Agents that
	// belong to one of them change over to this store. It is needed after "bursar store copy",
	// which prints the id, until all agents have called once. Default: none.
	ReplacesStores []string `yaml:"replacesStores" reload:"start"`
	// Store is the place of the rows: postgres://… of a database that several coordinators share,
	// or the path of a file for a single coordinator. Default: bursar.db in DataDir.
	Store string `yaml:"store" reload:"start"`
	// StoreFile is a file with the value of Store. A password in it is then neither in this file
	// nor in the environment. Only its owner may read it.
	StoreFile string `yaml:"storeFile" reload:"start"`
	// Election is how coordinators elect a leader: "consul", or "alone" if there is only one.
	// Default: consul if the store is a database, otherwise alone.
	Election string `yaml:"election" reload:"start"`
	// ElectionTTL is how long a leader that has stopped working keeps the others from leading. A
	// shorter time shortens the pause after the loss of a machine. With a longer time a leader
	// survives a longer pause of its process, of the network or of Consul. Default 3 s, at least 2
	// s.
	ElectionTTL time.Duration `yaml:"electionTTL" reload:"start"`
	// Consul is the Consul in which coordinators elect a leader, and in which agents and clients
	// find them.
	Consul consul.Config `yaml:"consul" reload:"start"`
	// DataDir is the directory of the embedded store's file. Default /var/lib/bursar/coordinator.
	// If the coordinator runs as root, the directory and everything in it must be root's, and
	// nobody else may write to it or to the folders above it. None of the store's files may be a
	// symbolic link.
	DataDir string `yaml:"dataDir" reload:"start"`
	// Placement is how the coordinator chooses a host for requests that name none: "spread"
	// (default) or "binpack".
	Placement string `yaml:"placement" reload:"start"`

	// QuotaFiles are files of rules. They are read at the start and after every change. A wrong
	// file is refused at the start; later it changes nothing.
	QuotaFiles []string `yaml:"quotaFiles" reload:"live"`
	// QuotaPoll is how often the coordinator checks the files for changes. Default 2 s.
	QuotaPoll time.Duration `yaml:"quotaPoll" reload:"start"`
	// Dimensions are custom dimensions, such as gpu or a license, that rules may use before a host
	// has them. A rule for another dimension is refused unless it is forced, because its name may
	// be misspelt; in QuotaFiles it is a warning. Dimensions of hosts and of external queues need
	// not be named here. Default: none.
	Dimensions []string `yaml:"dimensions" reload:"start"`
	// JoinCordoned makes hosts that register for the first time join cordoned: they get no engines
	// until an operator uncordons them. Default false.
	JoinCordoned bool `yaml:"joinCordoned" reload:"start"`
	// ProvidersFile says how external clusters are read, such as those of YARN. It is read at the
	// start, and a wrong file is refused. A cluster that does not answer is a warning. More
	// clusters may be added over the API. Default: none.
	ProvidersFile string `yaml:"providersFile" reload:"live"`
	// ProviderCredentials is the directory of passwords, keys and keytabs. If a provider is added
	// over the API, the files that it names must be in this directory. Default
	// /etc/bursar/credentials.
	ProviderCredentials string `yaml:"providerCredentials" reload:"start"`
	// Labels are rules for the labels of every request. They are applied before everything else.
	Labels label.Rules `yaml:"labels" reload:"start"`
	// KnownLabels are the keys that labels of requests may have, next to the well-known ones (user,
	// creator, engineType, tenant, cluster, queue) and the keys in the label rules. A request with
	// another key is refused, and so is a rule, unless it is forced. Default: none, any key is
	// accepted.
	KnownLabels []string `yaml:"knownLabels" reload:"start"`
	// LogLevel is how much is logged: debug, info, warn or error. The flag --log-level overrides
	// it. Default info.
	LogLevel string `yaml:"logLevel" reload:"live"`

	Times   Times   `yaml:"times" reload:"start"`
	Limits  Limits  `yaml:"limits" reload:"start"`
	History History `yaml:"history" reload:"start"`
	Output  Output  `yaml:"output"`
}

// Times are the ledger's times.
type Times struct {
	// ReservationTTL is how long a grant holds without Confirm if the request does not say. A
	// longer time helps slow launchers, but a dead launcher keeps its grant as long. Default 2 min.
	ReservationTTL time.Duration `yaml:"reservationTTL"`
	// Interval is the least time between two reports of a host. With a shorter time the coordinator
	// sees the end of an engine and the real load sooner, and coordinator and agents do more work.
	// Default 5 s.
	Interval time.Duration `yaml:"interval"`
	// ReportsPerSecond bounds the reports of all hosts together. With many hosts the interval
	// grows: to 10 s for 10,000 hosts. After a change of leader half as many full reports come each
	// second. The bound does not apply to the first short reports after the change: agents that
	// follow Consul send one within a fifth of their interval, 1 s at least. A report took 0.23 to
	// 0.36 ms of CPU time on a busy machine. Default 1000.
	ReportsPerSecond int `yaml:"reportsPerSecond"`
	// SuspectAfter is a number of intervals. A host that has not reported for so many is suspect:
	// it gets no new grants. Default 3.
	SuspectAfter int `yaml:"suspectAfter"`
	// LostAfter is how long a host may be silent before its allocations are given up. Default 5
	// min.
	LostAfter time.Duration `yaml:"lostAfter"`
	// StarvationAfter is how long other requests may pass a waiting request. After that, resources
	// that its account frees are held for it. A shorter time is fairer to large requests, and
	// leaves more unused. Default 30 s.
	StarvationAfter time.Duration `yaml:"starvationAfter"`
	// CallerGrace is how long a waiting request keeps its place when its caller has gone away.
	// Default 10 s.
	CallerGrace time.Duration `yaml:"callerGrace"`
	// RequestRetention is how long a request id is remembered after its allocation ended. Default
	// 24 h.
	RequestRetention time.Duration `yaml:"requestRetention"`
	// StopGrace is the time between SIGTERM and SIGKILL if a Stop does not say. Default 10 s.
	StopGrace time.Duration `yaml:"stopGrace"`
}

// ledger returns the ledger's configuration. It includes the ledger's facts about the kinds of
// external clusters.
func (c Config) ledger(kinds providers.Kinds) ledger.Config {
	t := c.Times
	return ledger.Config{
		Dimensions:      c.Dimensions,
		JoinCordoned:    c.JoinCordoned,
		FullPaths:       kinds.FullPaths(),
		Terms:           func(p ledger.ProviderRecord) ledger.Terms { return ledger.Terms(kinds.Terms(p.Kind, p.Settings)) },
		CallerLiveBytes: int64(c.Limits.CallerLiveBytes),
		ReservationTTL:  t.ReservationTTL, Interval: t.Interval, ReportsPerSecond: t.ReportsPerSecond,
		SuspectAfter: t.SuspectAfter, LostAfter: t.LostAfter, StarvationAfter: t.StarvationAfter,
		CallerGrace: t.CallerGrace, RequestRetention: t.RequestRetention, StopGrace: t.StopGrace,
	}
}

// Limits bound the memory and the work that callers can cause.
type Limits struct {
	// Queue is how many commands of one caller may wait for the loop. All callers together may have
	// four times as many. Further commands are refused with RESOURCE_EXHAUSTED, and may be sent
	// again. Callers take turns, so nobody waits for all commands of another. Default 8192.
	Queue int `yaml:"queue"`
	// Batch is how many commands one commit may cover. A commit covers fewer if they took 1 ms or
	// changed 256 KiB of rows. With more commands, each caller waits for the whole batch. Default
	// 1024.
	Batch int `yaml:"batch"`
	// CommitTimeout is how long a commit may take. After that its outcome is unknown, and the
	// coordinator begins a new leadership or gives up the lead. A shorter time shortens the pause
	// when the leader cannot reach its database. With a longer time a slow database ends no
	// leadership. Default 5 s.
	CommitTimeout time.Duration `yaml:"commitTimeout"`
	// MessageBytes is the largest request that applies rules (QuotaService/Apply), decompressed.
	// Other requests have 128 KiB at most. Default 1 MiB.
	MessageBytes resource.Size `yaml:"messageBytes"`
	// SyncBytes is the largest report of a host, decompressed. In a full report an engine takes
	// about 1 KiB. Default 16 MiB.
	SyncBytes resource.Size `yaml:"syncBytes"`
	// CallerWaiting is how many requests of one caller may wait for resources at a time. All
	// callers together may have four times as many. A waiting request takes some 20 KiB. Further
	// requests are refused with RESOURCE_EXHAUSTED, and may be sent again. Default 4096.
	CallerWaiting int `yaml:"callerWaiting"`
	// CallerLiveBytes is how much memory the live allocations (waiting, reserved, active) of one
	// caller may take, in bytes. The same bound holds for all callers of one host's agent together,
	// and half of it for each of them. Beyond this bound new requests are refused with
	// RESOURCE_EXHAUSTED. A usual allocation counts as 2.2 to 3 KiB, the largest as 18 KiB. Each
	// queue of its external parts, each queue above those, and each user's share of a queue adds
	// 1.5 KiB. Default 256 MiB: some 100,000 allocations.
	CallerLiveBytes resource.Size `yaml:"callerLiveBytes"`
	// WatchEvents is how many changes the coordinator keeps, so that watchers can resume. A watcher
	// that falls further behind is cut off. A change takes about 1 KiB. Default 16384.
	WatchEvents int `yaml:"watchEvents"`
	// WatchBytes is how much memory these changes may take, in bytes. If changes are large, fewer
	// are kept. Default 32 MiB.
	WatchBytes resource.Size `yaml:"watchBytes"`
	// MetricAccounts is how many quota accounts, hosts and queues (so many of each) get metrics of
	// their own: those whose names come first in the alphabet. Default 200.
	MetricAccounts int `yaml:"metricAccounts"`
	// Shutdown is how long calls under way may take to finish when the coordinator stops. Default
	// 10 s.
	Shutdown time.Duration `yaml:"shutdown"`
}

// History bounds the history of ended allocations.
type History struct {
	// Retention is how long an ended allocation can be looked up. Default 30 days. It is at least
	// Times.RequestRetention, so that a repeated request finds its answer.
	Retention time.Duration `yaml:"retention"`
	// CallerBytes is how much of the history one caller may have, in bytes. Beyond it the caller's
	// own oldest allocations are deleted first. If the allocations that ended within
	// Times.RequestRetention take more than this, new requests of the caller are refused. A usual
	// allocation takes about 800 bytes. Default 3 GiB.
	CallerBytes resource.Size `yaml:"callerBytes"`
	// PruneEvery is how often the coordinator deletes allocations beyond these bounds, in small
	// steps. Default 10 s.
	PruneEvery time.Duration `yaml:"pruneEvery"`
	// PruneStep is the number of allocations in a step. Steps follow each other until none are
	// left. Default 500.
	PruneStep int `yaml:"pruneStep"`
}

func (h History) bounds() commit.HistoryBounds {
	return commit.HistoryBounds{Retention: h.Retention, CallerBytes: int64(h.CallerBytes), PruneEvery: h.PruneEvery, PruneStep: h.PruneStep}
}

// The values of Config.Election.
const (
	ElectionConsul = "consul"
	ElectionAlone  = "alone"
)

// ConfigError names the wrong field of a configuration.
type ConfigError struct {
	Field, Value, Want string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s: %q: want %s", e.Field, e.Value, e.Want)
}

// orDefault returns value, or standard if value is zero.
func orDefault[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}

// WithDefaults returns the configuration with every default filled in, except for Times: the ledger
// has those defaults.
func (c Config) WithDefaults() Config {
	c.Listen = orDefault(c.Listen, "127.0.0.1:7070")
	c.Cluster = orDefault(c.Cluster, "bursar")
	c.DataDir = orDefault(c.DataDir, "/var/lib/bursar/coordinator")
	c.Placement = orDefault(c.Placement, "spread")
	c.ProviderCredentials = orDefault(c.ProviderCredentials, "/etc/bursar/credentials")
	c.QuotaPoll = orDefault(c.QuotaPoll, 2*time.Second)
	c.Times.RequestRetention = orDefault(c.Times.RequestRetention, 24*time.Hour)

	c.Limits.Queue = orDefault(c.Limits.Queue, 8192)
	c.Limits.Batch = orDefault(c.Limits.Batch, 1024)
	c.Limits.CommitTimeout = orDefault(c.Limits.CommitTimeout, 5*time.Second)
	c.Limits.MessageBytes = orDefault(c.Limits.MessageBytes, 1<<20)
	c.Limits.SyncBytes = orDefault(c.Limits.SyncBytes, 16<<20)
	c.Limits.CallerWaiting = orDefault(c.Limits.CallerWaiting, 4096)
	c.Limits.CallerLiveBytes = orDefault(c.Limits.CallerLiveBytes, ledger.CallerLiveBytes)
	c.Limits.WatchEvents = orDefault(c.Limits.WatchEvents, 16384)
	c.Limits.WatchBytes = orDefault(c.Limits.WatchBytes, 32<<20)
	c.Limits.MetricAccounts = orDefault(c.Limits.MetricAccounts, 200)
	c.Limits.Shutdown = orDefault(c.Limits.Shutdown, 10*time.Second)

	c.Output.CallerRate = orDefault(c.Output.CallerRate, 16<<20)
	c.Output.Rate = orDefault(c.Output.Rate, 64<<20)

	c.History.Retention = orDefault(c.History.Retention, 30*24*time.Hour)
	c.History.PruneEvery = orDefault(c.History.PruneEvery, 10*time.Second)
	c.History.CallerBytes = orDefault(c.History.CallerBytes, 3<<30)
	c.History.PruneStep = orDefault(c.History.PruneStep, 500)
	return c
}

// Validate fills in the defaults and reports the first wrong field as a *ConfigError.
func (c Config) Validate() error {
	c = c.WithDefaults()
	if err := c.checkTrust(); err != nil {
		return err
	}
	if err := c.checkPlace(); err != nil {
		return err
	}
	if err := c.checkLogLevel(); err != nil {
		return err
	}
	if c.Placement != "spread" && c.Placement != "binpack" {
		return &ConfigError{"placement", c.Placement, `"spread" or "binpack"`}
	}
	if err := c.checkDimensions(); err != nil {
		return err
	}
	if err := c.checkLeast(); err != nil {
		return err
	}
	if c.History.Retention < c.Times.RequestRetention {
		return &ConfigError{
			"history.retention", c.History.Retention.String(),
			fmt.Sprintf("at least times.requestRetention (%s)", c.Times.RequestRetention),
		}
	}
	return nil
}

// checkDimensions refuses names that no custom dimension can have.
func (c Config) checkDimensions() error {
	for i, name := range c.Dimensions {
		wrong := &resource.FieldError{}
		if err := (resource.Vector{}).WithCustom(map[string]int64{name: 1}).Validate(); errors.As(err, &wrong) {
			return &ConfigError{fmt.Sprintf("dimensions[%d]", i), name, wrong.Want}
		}
	}
	return nil
}

// checkLeast refuses numbers that are too small for a coordinator to work.
func (c Config) checkLeast() error {
	const shortest = time.Millisecond
	for name, d := range map[string]time.Duration{
		"quotaPoll": c.QuotaPoll, "limits.commitTimeout": c.Limits.CommitTimeout, "limits.shutdown": c.Limits.Shutdown,
		"history.retention": c.History.Retention, "history.pruneEvery": c.History.PruneEvery,
		"times.reservationTTL": c.Times.ReservationTTL, "times.interval": c.Times.Interval, "times.lostAfter": c.Times.LostAfter,
		"times.starvationAfter": c.Times.StarvationAfter, "times.callerGrace": c.Times.CallerGrace,
		"times.requestRetention": c.Times.RequestRetention, "times.stopGrace": c.Times.StopGrace,
	} {
		if d < 0 || 0 < d && d < shortest {
			return &ConfigError{name, d.String(), "a duration of at least " + shortest.String()}
		}
	}
	for name, n := range map[string]int{
		"limits.queue": c.Limits.Queue, "limits.batch": c.Limits.Batch, "limits.callerWaiting": c.Limits.CallerWaiting,
		"limits.watchEvents": c.Limits.WatchEvents, "limits.metricAccounts": c.Limits.MetricAccounts, "history.pruneStep": c.History.PruneStep,
		"times.reportsPerSecond": c.Times.ReportsPerSecond, "times.suspectAfter": c.Times.SuspectAfter,
	} {
		if n < 0 {
			return &ConfigError{name, fmt.Sprint(n), "a number of at least 1"}
		}
	}
	for name, size := range map[string]struct{ bytes, least resource.Size }{
		"limits.messageBytes":    {c.Limits.MessageBytes, auth.SmallBytes},
		"limits.syncBytes":       {c.Limits.SyncBytes, leastSyncBytes},
		"limits.watchBytes":      {c.Limits.WatchBytes, leastBytes},
		"limits.callerLiveBytes": {c.Limits.CallerLiveBytes, leastBytes},
		"history.callerBytes":    {c.History.CallerBytes, leastHistoryBytes},
		"output.callerRate":      {c.Output.CallerRate, outputs.MaxPiece},
		"output.rate":            {c.Output.Rate, outputs.MaxPiece},
	} {
		if size.bytes < size.least {
			return &ConfigError{name, size.bytes.String(), "a size of at least " + size.least.String()}
		}
	}
	return nil
}

const (
	// leastSyncBytes is the size of a report of 1,000 usual engines.
	leastSyncBytes = 1 << 20
	// leastBytes is room for some of the largest rows.
	leastBytes = 64 << 10
	// leastHistoryBytes is room for some usual rows.
	leastHistoryBytes = 16 << 10
)

// checkPlace checks where this coordinator and its rows are.
func (c Config) checkPlace() error {
	if !regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`).MatchString(c.Cluster) {
		return &ConfigError{"cluster", c.Cluster, "1 to 64 letters, digits, - and _"}
	}
	const mostReplaced = 16
	if n := len(c.ReplacesStores); n > mostReplaced {
		return &ConfigError{"replacesStores", fmt.Sprintf("%d ids", n), fmt.Sprintf("at most %d ids of stores", mostReplaced)}
	}
	for _, id := range c.ReplacesStores {
		if !clusterid.IsStoreID(id) {
			return &ConfigError{"replacesStores", id, "ids of stores, each of 26 letters and digits, as bursar store info shows them"}
		}
	}
	if c.Advertise != "" {
		base, err := discovery.ParseURL(c.Advertise)
		if wrong, ok := errors.AsType[*discovery.URLError](err); ok {
			return &ConfigError{"advertise", wrong.URL, wrong.Want}
		}
		if _, port, err := net.SplitHostPort(addressOf(base)); err != nil || port == "" {
			return &ConfigError{"advertise", c.Advertise, "a URL with a port, such as https://rm-1:7070"}
		}
	}
	if c.Election != "" && c.Election != ElectionConsul && c.Election != ElectionAlone {
		return &ConfigError{"election", c.Election, `"consul" or "alone"`}
	}
	if c.ElectionTTL != 0 && (c.ElectionTTL < 2*time.Second || c.ElectionTTL > time.Minute) {
		return &ConfigError{"electionTTL", c.ElectionTTL.String(), "2s to 1m"}
	}
	if !filepath.IsAbs(c.ProviderCredentials) {
		return &ConfigError{"providerCredentials", c.ProviderCredentials, "the path of a directory, from / on"}
	}
	if c.Store != "" && c.StoreFile != "" {
		return &ConfigError{"storeFile", c.StoreFile, "either store or storeFile, not both"}
	}
	return nil
}

// advertised returns the URL at which others reach a coordinator that serves at an address.
func (c Config) advertised(address string) string {
	if base, err := discovery.ParseURL(c.Advertise); err == nil {
		return base
	}
	scheme := "http"
	if c.TLS.IsSet() {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return scheme + "://" + address // a listener that is no network's
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return scheme + "://" + strings.ToLower(net.JoinHostPort(host, port))
}
