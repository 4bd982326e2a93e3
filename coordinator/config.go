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
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/discovery/consul"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Config says how a coordinator runs. The zero value of a field is its default.
type Config struct {
	// Listen is the address to serve on, HTTP/1.1 and HTTP/2, with TLS where it is configured.
	// Default 127.0.0.1:7070. Any other than a loopback address is refused without TLS, and
	// without Identities or TLS.ClientCA, unless Insecure is set.
	Listen string `yaml:"listen" reload:"start"`
	// Insecure serves a network without TLS, and where there are neither Identities nor
	// TLS.ClientCA whoever can connect, as anybody. Status and the log warn of it.
	Insecure bool `yaml:"insecure" reload:"start"`
	// TLS is the server's certificate, and the CA of certificates by which clients are known.
	TLS credential.ServerTLS `yaml:"tls" reload:"start"`
	// Identities is a file of those who may call, with the SHA-256 of their tokens; bursar token
	// create writes it. Where it is set nobody else may, over loopback neither. A changed file is
	// in force within 2 s, all of it or nothing. Default: none; then root and the user that it
	// runs as may do everything over loopback, other users of the machine what is their own.
	Identities string `yaml:"identities" reload:"start"`
	// Peers is how this coordinator shows itself to the others, and knows them.
	Peers Peers `yaml:"peers" reload:"start"`
	// AuditLog is the file that takes a line of JSON for every call refused for who made it, and
	// every one that administers. It is made with mode 0600, and made anew when it was moved away.
	// If root writes it, it and the folders above it are root's. Default: these records go to the
	// log, with audit=true.
	AuditLog string `yaml:"auditLog" reload:"start"`
	// Advertise is the base URL at which agents, clients and other coordinators reach this one,
	// such as https://rm-1:7070. Default: the address that it listens on, where that is a certain
	// one, and else the machine's host name. Needed where it stands for election and listens on a
	// loopback address.
	Advertise string `yaml:"advertise" reload:"start"`
	// Cluster names the coordinators that share a store and an election: letters, digits, - and _.
	// Default bursar.
	Cluster string `yaml:"cluster" reload:"start"`
	// Store is where the rows are: postgres://… of a database that several coordinators share, or
	// the path of a file for one alone. Default: bursar.db in DataDir.
	Store string `yaml:"store" reload:"start"`
	// StoreFile holds what Store would, so that a password in it stands neither here nor in the
	// environment. Only its owner may read it.
	StoreFile string `yaml:"storeFile" reload:"start"`
	// Election is how coordinators agree on who leads: "consul", or "alone" where there is one.
	// Default: consul where the store is a database, else alone.
	Election string `yaml:"election" reload:"start"`
	// ElectionTTL is how long a leader that does nothing any more keeps the others from leading.
	// Shorter is a shorter pause when a machine is lost; longer lets a leader get over a longer
	// pause of its process, of the network or of Consul. Default 3 s, at least 2 s.
	ElectionTTL time.Duration `yaml:"electionTTL" reload:"start"`
	// Consul is where they agree, and where agents and clients find them.
	Consul consul.Config `yaml:"consul" reload:"start"`
	// DataDir is where the embedded store keeps its file. Default /var/lib/bursar/coordinator. If
	// the coordinator runs as root, it is root's with all that is in it, and nobody else may write
	// to it, nor to the folders above it. None of the store's files may be a symbolic link.
	DataDir string `yaml:"dataDir" reload:"start"`
	// Placement is how a host is chosen for requests that name none: "spread" (default) or
	// "binpack".
	Placement string `yaml:"placement" reload:"start"`

	// QuotaFiles are read at the start, where a wrong one is refused, and again whenever they
	// change, where a wrong one changes nothing.
	QuotaFiles []string `yaml:"quotaFiles" reload:"live"`
	// QuotaPoll is how often they are looked at. Default 2 s.
	QuotaPoll time.Duration `yaml:"quotaPoll" reload:"start"`
	// ProvidersFile says how external clusters are read, such as those of YARN. It is read at the
	// start, where a wrong one is refused; a cluster that does not answer is a warning. Others may
	// be added over the API. Default: none.
	ProvidersFile string `yaml:"providersFile" reload:"live"`
	// ProviderCredentials is the directory of passwords, keys and keytabs. Files that are named by
	// a provider which came over the API must lie in it. Default /etc/bursar/credentials.
	ProviderCredentials string `yaml:"providerCredentials" reload:"start"`
	// Labels are the rules that every request's labels go through first.
	Labels label.Rules `yaml:"labels" reload:"start"`
	// LogLevel is how much it tells: debug, info, warn or error. The flag --log-level goes before
	// it. Default info.
	LogLevel string `yaml:"logLevel" reload:"live"`

	Times   Times   `yaml:"times" reload:"start"`
	Limits  Limits  `yaml:"limits" reload:"start"`
	History History `yaml:"history" reload:"start"`
}

// Times are the ledger's.
type Times struct {
	// ReservationTTL is how long a grant holds without Confirm where the request does not say.
	// Longer gives slow launchers time, and keeps what a dead one had for as long. Default 2 min.
	ReservationTTL time.Duration `yaml:"reservationTTL"`
	// Interval is the least time between two reports of a host. Shorter sees the end of an engine
	// and the real load sooner, and costs both ends more. Default 5 s.
	Interval time.Duration `yaml:"interval"`
	// ReportsPerSecond bounds what all hosts together send: with many of them the interval grows.
	// Default 200.
	ReportsPerSecond int `yaml:"reportsPerSecond"`
	// SuspectAfter is how many intervals without a report make a host suspect, so that it gets no
	// new grants. Default 3.
	SuspectAfter int `yaml:"suspectAfter"`
	// LostAfter is how long a host may be silent before its allocations are given up. Default 5
	// min.
	LostAfter time.Duration `yaml:"lostAfter"`
	// StarvationAfter is how long others may go past a waiting request before what its account
	// frees is held for it. Shorter is fairer to large requests, and leaves more unused. Default
	// 30 s.
	StarvationAfter time.Duration `yaml:"starvationAfter"`
	// CallerGrace is how long a waiting request keeps its place without a caller. Default 10 s.
	CallerGrace time.Duration `yaml:"callerGrace"`
	// RequestRetention is how long a request id is remembered after its allocation ended. Default
	// 24 h.
	RequestRetention time.Duration `yaml:"requestRetention"`
	// StopGrace is the time between SIGTERM and SIGKILL where a Stop does not say. Default 10 s.
	StopGrace time.Duration `yaml:"stopGrace"`
}

// ledger is the part of a configuration that is the ledger's.
func (c Config) ledger() ledger.Config {
	t := c.Times
	return ledger.Config{
		CallerLiveBytes: int64(c.Limits.CallerLiveBytes),
		ReservationTTL:  t.ReservationTTL, Interval: t.Interval, ReportsPerSecond: t.ReportsPerSecond,
		SuspectAfter: t.SuspectAfter, LostAfter: t.LostAfter, StarvationAfter: t.StarvationAfter,
		CallerGrace: t.CallerGrace, RequestRetention: t.RequestRetention, StopGrace: t.StopGrace,
	}
}

// Limits bound what callers can make a coordinator hold.
type Limits struct {
	// Queue is how many commands of one caller may wait for the loop, of all together four times
	// as many; what comes beyond is refused with RESOURCE_EXHAUSTED, to be sent again. Callers take
	// turns, so nobody waits for the commands of one who has many. Default 8192.
	Queue int `yaml:"queue"`
	// Batch is how many commands one commit may cover; it covers less if they took 1 ms or changed
	// rows of 256 KiB. More make each of its callers wait for all. Default 1024.
	Batch int `yaml:"batch"`
	// CommitTimeout is how long a commit may take before its outcome counts as unknown and the
	// coordinator leads anew, or gives the lead away. Shorter is a shorter pause when a leader has
	// lost its way to the database; longer bears with a slower one. Default 5 s.
	CommitTimeout time.Duration `yaml:"commitTimeout"`
	// MessageBytes is the largest request that applies rules (QuotaService/Apply), decompressed.
	// Others have 128 KiB at most. Default 1 MiB.
	MessageBytes resource.Size `yaml:"messageBytes"`
	// SyncBytes is the largest report of a host, decompressed: an engine takes about 1 KiB in a
	// full one. Default 16 MiB.
	SyncBytes resource.Size `yaml:"syncBytes"`
	// CallerWaiting is how many requests of one caller may wait for resources at a time, of all
	// together four times as many. One takes some 20 KiB. What comes beyond is refused with
	// RESOURCE_EXHAUSTED, to be sent again. Default 4096.
	CallerWaiting int `yaml:"callerWaiting"`
	// CallerLiveBytes is how much memory the live allocations (waiting, reserved, active) of one
	// caller may take, in bytes; it is also what all callers of one host's agent may have
	// together, each of them half of it at most. Beyond, new requests are refused with
	// RESOURCE_EXHAUSTED. A usual allocation counts with 2.2 to 3 KiB, the largest with 18, and
	// each with 1.5 KiB more for each queue of its parts, those above included. Default 256 MiB:
	// some 100,000.
	CallerLiveBytes resource.Size `yaml:"callerLiveBytes"`
	// WatchEvents is how many changes are kept for watchers to resume from; a watcher that falls
	// further behind is cut off. One takes about 1 KiB. Default 16384.
	WatchEvents int `yaml:"watchEvents"`
	// WatchBytes is how much memory these changes may take, in bytes: where they are large, fewer
	// are kept. Default 32 MiB.
	WatchBytes resource.Size `yaml:"watchBytes"`
	// MetricAccounts is how many quota accounts, how many hosts and how many queues get metrics of
	// their own: those with the smallest names. Default 200.
	MetricAccounts int `yaml:"metricAccounts"`
	// Shutdown is how long calls under way may take to finish when the coordinator stops. Default
	// 10 s.
	Shutdown time.Duration `yaml:"shutdown"`
}

// History says how long what has ended can be looked up.
type History struct {
	// Retention is how long. Default 30 days; at least Times.RequestRetention, so that a repeated
	// request finds its answer.
	Retention time.Duration `yaml:"retention"`
	// CallerBytes is how much of the history one caller may have, in bytes: beyond it its own
	// oldest go first. While what ended within Times.RequestRetention alone takes more, its new
	// requests are refused. A usual allocation takes about 600 bytes. Default 2 GiB.
	CallerBytes resource.Size `yaml:"callerBytes"`
	// PruneEvery is how often what is beyond these bounds is looked for, and deleted in small
	// steps. Default 10 s.
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

	c.History.Retention = orDefault(c.History.Retention, 30*24*time.Hour)
	c.History.PruneEvery = orDefault(c.History.PruneEvery, 10*time.Second)
	c.History.CallerBytes = orDefault(c.History.CallerBytes, 2<<30)
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
