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
	// Insecure allows Listen to be an address of a network without TLS. Without Identities and
	// TLS.ClientCA everybody who can connect may then do everything, as anybody. Status and the log
	// warn of it.
	Insecure bool `yaml:"insecure" reload:"start"`
	// TLS is the server's certificate, and the CA of certificates by which clients are known.
	TLS credential.ServerTLS `yaml:"tls" reload:"start"`
	// Identities is a file of those who may call, with the SHA-256 of their tokens; bursar token
	// create writes it. If it is set, nobody else may call, also not over loopback. A changed file
	// is in force within 2 s, all of it or nothing. Default: none. Then root and the user that the
	// coordinator runs as may do everything over loopback, and other users of the machine what is
	// their own.
	Identities string `yaml:"identities" reload:"start"`
	// Peers is how this coordinator shows itself to the other coordinators, and how it knows them.
	Peers Peers `yaml:"peers" reload:"start"`
	// AuditLog is a file. It takes a line of JSON for every call that is refused because of its
	// caller, and for every call that administers. It is made with mode 0600; if it is moved away,
	// it is made again. If root writes it, the file and the folders above it must be root's.
	// Default: the records go to the log, with audit=true.
	AuditLog string `yaml:"auditLog" reload:"start"`
	// Advertise is the base URL at which agents, clients and other coordinators reach this one,
	// such as https://rm-1:7070. Default: the address in Listen; if that is every address of the
	// machine, the machine's host name. It is needed if the coordinator stands for election and
	// listens on a loopback address.
	Advertise string `yaml:"advertise" reload:"start"`
	// Cluster names the coordinators that share a store and an election: letters, digits, - and _.
	// Default bursar.
	Cluster string `yaml:"cluster" reload:"start"`
	// ReplacesStores are the ids of stores that this one has taken the place of, at most 16. Agents
	// that belong to one of them come over to this store. It is needed after "bursar store copy",
	// which prints the id, until all agents have called once. Default: none.
	ReplacesStores []string `yaml:"replacesStores" reload:"start"`
	// Store is where the rows are: postgres://… of a database that several coordinators share, or
	// the path of a file for one alone. Default: bursar.db in DataDir.
	Store string `yaml:"store" reload:"start"`
	// StoreFile is a file that holds what Store would, so that a password in it is neither in this
	// file nor in the environment. Only its owner may read it.
	StoreFile string `yaml:"storeFile" reload:"start"`
	// Election is how coordinators agree on who leads: "consul", or "alone" if there is only one.
	// Default: consul if the store is a database, else alone.
	Election string `yaml:"election" reload:"start"`
	// ElectionTTL is how long a leader that has stopped working keeps the others from leading. With
	// a shorter time the pause is shorter when a machine is lost. With a longer time a leader stays
	// through a longer pause of its process, of the network or of Consul. Default 3 s, at least 2
	// s.
	ElectionTTL time.Duration `yaml:"electionTTL" reload:"start"`
	// Consul is where coordinators agree on who leads, and where agents and clients find them.
	Consul consul.Config `yaml:"consul" reload:"start"`
	// DataDir is where the embedded store keeps its file. Default /var/lib/bursar/coordinator. If
	// the coordinator runs as root, the directory and all that is in it must be root's, and nobody
	// else may write to it or to the folders above it. None of the store's files may be a symbolic
	// link.
	DataDir string `yaml:"dataDir" reload:"start"`
	// Placement is how a host is chosen for requests that name none: "spread" (default) or
	// "binpack".
	Placement string `yaml:"placement" reload:"start"`

	// QuotaFiles are files of rules. They are read at the start and whenever they change. At the
	// start a wrong file is refused; later a wrong file changes nothing.
	QuotaFiles []string `yaml:"quotaFiles" reload:"live"`
	// QuotaPoll is how often the coordinator looks whether they have changed. Default 2 s.
	QuotaPoll time.Duration `yaml:"quotaPoll" reload:"start"`
	// Dimensions are custom dimensions that rules may be for before a host has them, such as gpu or
	// a license. A rule for another one is refused unless it is forced, because its name may be
	// misspelt; in QuotaFiles it is a warning. What hosts and the queues of external clusters have
	// need not be named here. Default: none.
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
	// creator, engineType, tenant, cluster, queue) and those that the label rules name. A request
	// with another key is refused, and so is a rule, unless it is forced. Default: none, any key is
	// taken.
	KnownLabels []string `yaml:"knownLabels" reload:"start"`
	// LogLevel is how much is logged: debug, info, warn or error. The flag --log-level overrides
	// it. Default info.
	LogLevel string `yaml:"logLevel" reload:"live"`

	Times   Times   `yaml:"times" reload:"start"`
	Limits  Limits  `yaml:"limits" reload:"start"`
	History History `yaml:"history" reload:"start"`
	Output  Output  `yaml:"output"`
}

// Times are the ledger's.
type Times struct {
	// ReservationTTL is how long a grant holds without Confirm if the request does not say. A
	// longer time helps slow launchers, but a dead one keeps its grant for as long. Default 2 min.
	ReservationTTL time.Duration `yaml:"reservationTTL"`
	// Interval is the least time between two reports of a host. With a shorter time the coordinator
	// sees the end of an engine and the real load sooner, and coordinator and agents do more work.
	// Default 5 s.
	Interval time.Duration `yaml:"interval"`
	// ReportsPerSecond bounds the reports of all hosts together. If there are many hosts, the
	// interval grows: to 10 s for 10,000 hosts. Half as many full reports come in a second after a
	// change of leader. It does not bound the first short reports after that: agents that follow
	// Consul send one within a fifth of their interval, 1 s at least. A report took 0.23 to 0.36 ms
	// of CPU time on a busy machine. Default 1000.
	ReportsPerSecond int `yaml:"reportsPerSecond"`
	// SuspectAfter is a number of intervals. A host that has not reported for so many is suspect:
	// it gets no new grants. Default 3.
	SuspectAfter int `yaml:"suspectAfter"`
	// LostAfter is how long a host may be silent before its allocations are given up. Default 5
	// min.
	LostAfter time.Duration `yaml:"lostAfter"`
	// StarvationAfter is how long other requests may pass a waiting one. After that, what its
	// account frees is held for it. A shorter time is fairer to large requests, and leaves more
	// unused. Default 30 s.
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

// ledger is the part of a configuration that is the ledger's, with what it has to know of kinds of
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

// Limits bound what callers can make a coordinator hold.
type Limits struct {
	// Queue is how many commands of one caller may wait for the loop. All callers together may
	// have four times as many. If there are more, they are refused with RESOURCE_EXHAUSTED, and may
	// be sent again. Callers take turns, so nobody waits for all commands of another. Default 8192.
	Queue int `yaml:"queue"`
	// Batch is how many commands one commit may cover. A commit covers fewer if they took 1 ms or
	// changed rows of 256 KiB. With more, each caller waits for the whole batch. Default 1024.
	Batch int `yaml:"batch"`
	// CommitTimeout is how long a commit may take. After that its outcome is unknown, and the
	// coordinator begins a new leadership or gives the lead away. With a shorter time the pause is
	// shorter when the leader cannot reach its database. With a longer time a slow database ends no
	// leadership. Default 5 s.
	CommitTimeout time.Duration `yaml:"commitTimeout"`
	// MessageBytes is the largest request that applies rules (QuotaService/Apply), decompressed.
	// Other requests have 128 KiB at most. Default 1 MiB.
	MessageBytes resource.Size `yaml:"messageBytes"`
	// SyncBytes is the largest report of a host, decompressed: an engine takes about 1 KiB in a
	// full one. Default 16 MiB.
	SyncBytes resource.Size `yaml:"syncBytes"`
	// CallerWaiting is how many requests of one caller may wait for resources at a time. All
	// callers together may have four times as many. One takes some 20 KiB. If there are more, they
	// are refused with RESOURCE_EXHAUSTED, and may be sent again. Default 4096.
	CallerWaiting int `yaml:"callerWaiting"`
	// CallerLiveBytes is how much memory the live allocations (waiting, reserved, active) of one
	// caller may take, in bytes. All callers of one host's agent may together have as much, and
	// each of them half of it. Beyond this bound new requests are refused with RESOURCE_EXHAUSTED.
	// A usual allocation counts with 2.2 to 3 KiB, the largest with 18. Each queue of its external
	// parts, each queue above those, and what a user has of one, counts with 1.5 KiB more.
	// Default 256 MiB: some 100,000 allocations.
	CallerLiveBytes resource.Size `yaml:"callerLiveBytes"`
	// WatchEvents is how many changes are kept for watchers to resume from; a watcher that falls
	// further behind is cut off. One takes about 1 KiB. Default 16384.
	WatchEvents int `yaml:"watchEvents"`
	// WatchBytes is how much memory these changes may take, in bytes: if they are large, fewer are
	// kept. Default 32 MiB.
	WatchBytes resource.Size `yaml:"watchBytes"`
	// MetricAccounts is how many quota accounts, hosts and queues (so many of each) get metrics of
	// their own: those whose names come first in the alphabet. Default 200.
	MetricAccounts int `yaml:"metricAccounts"`
	// Shutdown is how long calls under way may take to finish when the coordinator stops. Default
	// 10 s.
	Shutdown time.Duration `yaml:"shutdown"`
}

// History says how long what has ended can be looked up.
type History struct {
	// Retention is how long an allocation that has ended can be looked up. Default 30 days. It is
	// at least Times.RequestRetention, so that a repeated request finds its answer.
	Retention time.Duration `yaml:"retention"`
	// CallerBytes is how much of the history one caller may have, in bytes. Beyond it the caller's
	// own oldest allocations are deleted first. If those that ended within Times.RequestRetention
	// take more than this, new requests of the caller are refused. A usual allocation takes about
	// 800 bytes. Default 3 GiB.
	CallerBytes resource.Size `yaml:"callerBytes"`
	// PruneEvery is how often the coordinator looks for what is beyond these bounds, and deletes it
	// in small steps. Default 10 s.
	PruneEvery time.Duration `yaml:"pruneEvery"`
	// PruneStep is the size of a step, in allocations; steps follow each other while there is
	// more. Default 500.
	PruneStep int `yaml:"pruneStep"`
}

func (h History) bounds() commit.HistoryBounds {
	return commit.HistoryBounds{Retention: h.Retention, CallerBytes: int64(h.CallerBytes), PruneEvery: h.PruneEvery, PruneStep: h.PruneStep}
}

// The ways to agree on who leads.
const (
	ElectionConsul = "consul"
	ElectionAlone  = "alone"
)

// ConfigError names the field of a configuration that cannot be used.
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

// WithDefaults returns the configuration with every default filled in, except those of Times,
// which are the ledger's.
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

// Validate reports the first field that cannot be used, as a *ConfigError, after the defaults were
// filled in.
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

// checkLeast refuses numbers with which a coordinator could not do its work.
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
	// leastSyncBytes is a report of 1,000 usual engines.
	leastSyncBytes = 1 << 20
	// leastBytes is room for some of the largest rows.
	leastBytes = 64 << 10
	// leastHistoryBytes is that of some that are usual.
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

// advertised is the URL at which others reach a coordinator that serves at an address.
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
