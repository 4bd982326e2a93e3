package client

import (
	"crypto/tls"
	"slices"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/readlimit"
)

// Option changes how a Client works.
type Option interface {
	apply(*settings)
}

// settings are the values that the options change.
type settings struct {
	actor            string // the header's value; empty: none
	retries          RetryPolicy
	reached          *atomic.Bool // a server has answered or accepted a connection
	timeout          time.Duration
	h2c              bool
	tls              *tls.Config
	credentials      *credential.Client
	coordinatorsOnly bool // servers must prove that they are coordinators
	pin              *Pin // nil: coordinators of every cluster are accepted
	// largest bounds the size of received messages, in bytes.
	largest int
	token   func() (string, error) // nil: none
	// attempts are the interceptors of each attempt.
	attempts []connect.Interceptor
	// notify is called once for a call without an answer after notifyAfter; nil: no notice.
	notify      func(last error)
	notifyAfter time.Duration
	// missed is called when a watch continues after a gap; nil: the watch ends there.
	missed func(after, upTo uint64)
}

// newSettings applies the options to the defaults.
func newSettings(opts []Option) settings {
	s := settings{retries: RetryPolicy{}.withDefaults(), reached: new(atomic.Bool), timeout: defaultTimeout, largest: readlimit.Message}
	for _, opt := range opts {
		opt.apply(&s)
	}
	return s
}

// RetryPolicy configures the repetition of a call that nobody answered. The n-th delay is drawn
// evenly from 0 to min(Longest, First × 2ⁿ): full jitter, so that the clients of a restarted server
// do not return at the same time.
type RetryPolicy struct {
	// First bounds the first delay. Default 50 ms. A larger value loads a restarting server less
	// and makes callers wait longer.
	First time.Duration
	// Longest bounds every delay. Default 2 s.
	Longest time.Duration
	// Patience is how long a call continues without an answer, from its first failure on; a watch
	// likewise. It is for calls without a time limit: a call whose context has a deadline, or an
	// Allocate with a wait, continues until that is over. Default 15 s, which outlasts a restart or
	// a change of leader. Negative: never repeat.
	Patience time.Duration
	// Present is how long such a call continues if the address seems to be right: it refuses or
	// breaks connections, as during a restart of its server, a coordinator answers that there is no
	// leader, or an agent that no coordinator answers. Default, and at least: Patience. A value
	// above Patience outlasts a restart and a change of leader, and the call still ends soon if the
	// name does not resolve, the folder of a socket is missing, or the server is not trusted.
	Present time.Duration
	// Absent is how long such a call continues, from its beginning, if no attempt got a connection
	// and the client has had no answer before: nobody listens at the address, or no network leads
	// to it. A server that has answered once may be restarting, and Present applies. A deadline
	// does not make such a call longer; an Allocate with a wait continues. Default: Patience or
	// Present, as above. A smaller value tells users at a terminal sooner that an address is wrong.
	Absent time.Duration
	// Refused is how long such a call continues while the server is overloaded, refuses it and says
	// when to try again. Such a refusal restarts the timeout of the call. Default: Patience. A
	// larger value lets a larger burst of calls succeed, at the rate that the server sets.
	Refused time.Duration
}

const (
	defaultFirst    = 50 * time.Millisecond
	defaultLongest  = 2 * time.Second
	defaultPatience = 15 * time.Second
	// defaultTimeout bounds a unary call whose context has no deadline.
	defaultTimeout = 30 * time.Second
)

func (p RetryPolicy) withDefaults() RetryPolicy {
	if p.First <= 0 {
		p.First = defaultFirst
	}
	if p.Longest <= 0 {
		p.Longest = defaultLongest
	}
	if p.Patience == 0 {
		p.Patience = defaultPatience
	}
	p.Present = max(p.Present, p.Patience)
	if p.Refused <= 0 {
		p.Refused = p.Patience
	}
	return p
}

type optionFunc func(*settings)

func (f optionFunc) apply(s *settings) { f(s) }

// WithRetries replaces the retry policy; fields that are zero keep their defaults.
func WithRetries(policy RetryPolicy) Option {
	return optionFunc(func(s *settings) { s.retries = policy.withDefaults() })
}

// WithoutRetries makes every call only once.
func WithoutRetries() Option { return WithRetries(RetryPolicy{Patience: -1}) }

// WithTimeout bounds unary calls whose context has no deadline, including retries. Default 30 s. An
// Allocate with a wait gets its wait in addition. Zero or less keeps the default.
func WithTimeout(timeout time.Duration) Option {
	return optionFunc(func(s *settings) {
		if timeout > 0 {
			s.timeout = timeout
		}
	})
}

// WithActor sets the user in whose name calls are made, in the header Bursar-Actor. A server
// accepts it only from a peer that may act for others, such as an agent, and refuses or ignores it
// from other peers. Default: none; the server identifies the caller by the connection.
func WithActor(actor Actor) Option {
	return optionFunc(func(s *settings) { s.actor = actor.Encode() })
}

// WithH2C uses HTTP/2 without TLS, so that concurrent calls share one connection. Default: HTTP/1.1
// with kept connections, which is faster for one call at a time (measured on two cores over a Unix
// socket: 51-67 µs a call against 90-97).
func WithH2C() Option {
	return optionFunc(func(s *settings) { s.h2c = true })
}

// WithTLS configures the connections to https servers: the trusted authorities and the client's
// certificate. Default: the machine's certificate authorities and no certificate. It has no effect
// for http and sockets.
func WithTLS(config *tls.Config) Option {
	return optionFunc(func(s *settings) { s.tls = config })
}

// WithCredentials is WithTLS with files that are read again when they change: each new connection
// uses their current content. It takes precedence over WithTLS.
func WithCredentials(own *Credentials) Option {
	return optionFunc(func(s *settings) { s.credentials = own })
}

// WithToken sends a bearer token with every attempt of every call; the function returns the current
// token. It must be fast and safe for concurrent use. If it fails, the call fails with
// UNAUTHENTICATED. In plain http the token is sent only to this machine: any other call fails with
// ErrTokenInClear. Default: none.
func WithToken(token func() (string, error)) Option {
	return optionFunc(func(s *settings) { s.token = token })
}

// WithCoordinatorsOnly calls an https server only if its certificate has the role coordinator (O =
// "bursar:coordinator") or the ServerName of WithCredentials. It is for finders whose list others
// can change, such as Consul's. Without it, any machine with a certificate of the CA could be
// listed there and would receive the credentials of callers. Default: the certificate must have the
// name in the URL.
func WithCoordinatorsOnly() Option {
	return optionFunc(func(s *settings) { s.coordinatorsOnly = true })
}

// WithPin calls only the coordinators of the pin's cluster. Calls carry that cluster, so that a
// coordinator of another one refuses them before any effect. An answer from a coordinator of
// another cluster is discarded, and the call goes to the next one. Default: coordinators are not
// compared.
func WithPin(pin *Pin) Option {
	return optionFunc(func(s *settings) { s.pin = pin })
}

// WithLargestAnswer bounds the size in bytes of every received message after decompression, for
// programs with little memory. Default readlimit.Message, 32 MiB: the largest page of a list.
func WithLargestAnswer(size int) Option {
	return optionFunc(func(s *settings) { s.largest = size })
}

// WithNotice calls f once for each unary call without an answer after this time, with the error of
// its last attempt, or nil if its first one is still in progress. There is no notice of an Allocate
// with a wait or of a Launch, which may take long, nor of a call that the server asks to come
// later. f returns before the call does. A watch calls f once for each period of this length
// without an answer, when an attempt has failed. Default: none.
func WithNotice(after time.Duration, f func(last error)) Option {
	return optionFunc(func(s *settings) { s.notify, s.notifyAfter = f, after })
}

// WithGaps lets a watch that has begun continue from now if the server no longer holds the changes
// after its last revision; a new leader may lack them. f is then called before the next message is
// yielded: changes after the first revision up to the second may have been missed. A watch whose
// first revision is refused ends as without this option. Default: the watch ends with OUT_OF_RANGE.
func WithGaps(f func(after, upTo uint64)) Option {
	return optionFunc(func(s *settings) { s.missed = f })
}

// WithInterceptors adds interceptors that see each attempt of each call, below the retries:
// tracing, for example. Default: none.
func WithInterceptors(interceptors ...connect.Interceptor) Option {
	return optionFunc(func(s *settings) { s.attempts = slices.Concat(s.attempts, interceptors) })
}
