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

// settings are what the options change.
type settings struct {
	actor            string // the header's value; empty: none
	retries          RetryPolicy
	reached          *atomic.Bool // a server has answered, or has taken a connection
	timeout          time.Duration
	h2c              bool
	tls              *tls.Config
	credentials      *credential.Client
	coordinatorsOnly bool // servers must show that they are coordinators
	pin              *Pin // nil: coordinators of every cluster are called
	// largest is the size of the largest message that is read, in bytes.
	largest int
	token   func() (string, error) // nil: none
	// attempts are the interceptors of each attempt.
	attempts []connect.Interceptor
	// notify is called once for a call that has no answer after notifyAfter; nil: nobody is told.
	notify      func(last error)
	notifyAfter time.Duration
	// missed is called when a watch goes on behind a gap; nil: the watch ends there.
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

// RetryPolicy says how a call that nobody answered is repeated. The n-th delay is drawn evenly
// from 0 to min(Longest, First × 2ⁿ): full jitter, so that many clients of a server that comes
// back do not return in step.
type RetryPolicy struct {
	// First bounds the first delay. Default 50 ms. More loads a server less while it comes back,
	// and makes callers wait longer.
	First time.Duration
	// Longest bounds every delay. Default 2 s.
	Longest time.Duration
	// Patience is how long a call goes on without an answer, from its first failure on; a watch
	// likewise. It is for calls that do not say how long they may take. A call whose context has a
	// deadline, or an Allocate with a wait, goes on until that is over. Default 15 s, which
	// outlasts a restart or a change of leader. Negative: never repeat.
	Patience time.Duration
	// Present is how long such a call goes on if the address seems to be right: it refuses
	// connections or breaks them, as that of a server that restarts does, a coordinator answers
	// that none leads, or an agent that no coordinator answers. Default, and at least: Patience.
	// More than Patience outlasts a restart and a change of leader, and still ends soon if nobody
	// knows the name, the folder of a socket is missing, or the server is not to be trusted.
	Present time.Duration
	// Absent is how long such a call goes on, from its beginning, if no attempt has got a
	// connection and the client has had no answer before: nobody listens at the address, or no
	// network leads to it. A server that has answered once may restart, and Present counts. A
	// deadline does not make such a call longer; an Allocate with a wait goes on. Default: Patience
	// or Present, as above. Less tells people at a terminal sooner that an address is wrong.
	Absent time.Duration
	// Refused is how long such a call goes on while the server refuses it because it has too much
	// to do, and says when to try again. The timeout of a call begins again with such a refusal.
	// Default: Patience. More gets a larger burst of calls through; the server says how fast they
	// come.
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

// WithoutRetries makes every call once.
func WithoutRetries() Option { return WithRetries(RetryPolicy{Patience: -1}) }

// WithTimeout bounds unary calls whose context has no deadline, retries included. Default 30 s. An
// Allocate that waits gets its wait on top. Zero or less keeps the default.
func WithTimeout(timeout time.Duration) Option {
	return optionFunc(func(s *settings) {
		if timeout > 0 {
			s.timeout = timeout
		}
	})
}

// WithActor says in whose name calls are made, in the header Bursar-Actor. A server believes it
// only from a peer that may act for others, such as an agent. From others it is refused or
// ignored. Default: none, the server knows its caller by the connection.
func WithActor(actor Actor) Option {
	return optionFunc(func(s *settings) { s.actor = actor.Encode() })
}

// WithH2C speaks HTTP/2 without TLS, so that many calls at once share one connection. Default:
// HTTP/1.1 with kept connections, which is faster for one call at a time (measured on two cores
// over a Unix socket: 51-67 µs a call against 90-97).
func WithH2C() Option {
	return optionFunc(func(s *settings) { s.h2c = true })
}

// WithTLS is how https servers are spoken to: whom to believe, and with which certificate to
// answer. Default: the machine's certificate authorities and no certificate. It does nothing for
// http and sockets.
func WithTLS(config *tls.Config) Option {
	return optionFunc(func(s *settings) { s.tls = config })
}

// WithCredentials is WithTLS from files that are read again when they change: each new connection
// uses them as they are then. It goes before WithTLS.
func WithCredentials(own *Credentials) Option {
	return optionFunc(func(s *settings) { s.credentials = own })
}

// WithToken sends a bearer token with every attempt of every call, as the function gives it then.
// It must be quick and may be called by many goroutines. If it fails, the call fails with
// UNAUTHENTICATED. Over plain http it goes to this machine alone: any other call fails with
// ErrTokenInClear. Default: none.
func WithToken(token func() (string, error)) Option {
	return optionFunc(func(s *settings) { s.token = token })
}

// WithCoordinatorsOnly calls an https server only if its certificate has the role coordinator (O =
// "bursar:coordinator") or the ServerName of WithCredentials. It is for finders whose list others
// can change, such as Consul's. Otherwise any machine with a certificate of the CA could be named
// there, and would get what callers show. Default: the certificate must have the name in the URL.
func WithCoordinatorsOnly() Option {
	return optionFunc(func(s *settings) { s.coordinatorsOnly = true })
}

// WithPin calls coordinators of one cluster only, those of the pin. Calls carry that cluster, so
// that a coordinator of another one refuses them before it does anything. An answer of another
// cluster's coordinator counts as none, and the call goes to the next one. Default: coordinators
// are not compared.
func WithPin(pin *Pin) Option {
	return optionFunc(func(s *settings) { s.pin = pin })
}

// WithLargestAnswer bounds the size in bytes of every message that is read, once it is
// decompressed, for programs that have little memory themselves. Default readlimit.Message, 32
// MiB: the largest page of a list.
func WithLargestAnswer(size int) Option {
	return optionFunc(func(s *settings) { s.largest = size })
}

// WithNotice calls f once for each unary call that has no answer after so long, with the error of
// its last attempt, or nil if its first one is still under way. An Allocate that waits, and a
// Launch, rightly take long: there is no notice of them, nor of a call that the server asks to come
// later. f has returned when the call does. A watch calls f once for each time in which nobody has
// answered for so long, when an attempt has failed. Default: none.
func WithNotice(after time.Duration, f func(last error)) Option {
	return optionFunc(func(s *settings) { s.notify, s.notifyAfter = f, after })
}

// WithGaps has a watch that has begun go on from now if the server no longer holds what came after
// its last revision, as a new leader may not. f is then called, before the next message is yielded:
// changes after the first revision up to the second may have been missed. A watch whose first
// revision is refused ends as without it. Default: the watch ends with OUT_OF_RANGE.
func WithGaps(f func(after, upTo uint64)) Option {
	return optionFunc(func(s *settings) { s.missed = f })
}

// WithInterceptors adds interceptors that see each attempt of each call, inside of what repeats
// them: tracing, for example. Default: none.
func WithInterceptors(interceptors ...connect.Interceptor) Option {
	return optionFunc(func(s *settings) { s.attempts = slices.Concat(s.attempts, interceptors) })
}
