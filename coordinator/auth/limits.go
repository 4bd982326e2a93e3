package auth

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/readlimit"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
)

const (
	// SmallBytes is the largest request of most procedures; they have some hundred bytes.
	SmallBytes = 128 << 10
	// ProbeBytes is that of the services of health and reflection, which name a service or a file.
	ProbeBytes = 4 << 10
	// framing is how much the heads of messages add to a body at most, with what comes after the
	// only message.
	framing = 64
	// callerBytes is how much of one caller's requests is held at a time, allBytes of all
	// callers'.
	callerBytes = 4 << 20
	allBytes    = 64 << 20
	// callerAnswers is how much of answers to one caller is made and held until they are sent,
	// allAnswers of those to all; hostAnswers and allHostAnswers are of those to hosts' reports,
	// which are larger.
	callerAnswers, allAnswers   = 16 << 20, 256 << 20
	hostAnswers, allHostAnswers = 2 * readlimit.Agent, 512 << 20
	// maxAttached is how many streams of orders there may be: one for each host, and some that
	// broke and were not noticed yet. Hosts that have no identities of their own count as one
	// caller.
	maxAttached, maxAttachedCaller = 65536, 16384
	// maxSenders is how many streams of output there may be, maxSendersHost from one host, and the
	// bytes are those of messages that are being read: one of each stream.
	maxSenders, maxSendersHost       = 2048, 512
	senderBytes, senderBytesHost int = maxSenders * SmallBytes, maxSendersHost * SmallBytes
	// countedFrom is the size from which an answer is counted that was not counted before it was
	// made.
	countedFrom = 8 << 10
	// maxKnown is how many connections with an identity there may be, maxKnownCaller of one
	// caller.
	maxKnown, maxKnownCaller = 32768, 8192
	// maxUnknown is how many there may be without one, maxUnknownAddress of one address, or of one
	// user of this machine: agents behind one gateway that all come back at once have none for a
	// moment.
	maxUnknown, maxUnknownAddress = 8192, 1024
	// maxNameless is how many such requests may be under way over one owner's connections.
	// maxRefused is how many refused requests of one caller may wait until their refusals are
	// sent.
	maxNameless, maxRefused = 1024, 1024
	// maxSends is how many messages a second the streams of one caller get together. One costs some
	// 10 µs: a caller with many streams takes a tenth of a processor with them. A stream that falls
	// behind for it is cut off, as one whose reader is slow.
	maxSends = 10_000
	// HeaderBytes bounds the texts of a request's header. A call keeps its header while it waits,
	// so it counts with what is held of the request.
	HeaderBytes = 16 << 10
)

// LimitsOptions are what Limits need.
type LimitsOptions struct {
	// Waiting is how many requests of one caller may wait for resources.
	Waiting int
	// MessageBytes is the size of the largest request that applies rules, and SyncBytes that of
	// the largest report of a host, in bytes, decompressed. Others have SmallBytes at most.
	MessageBytes, SyncBytes int64
	// ProbeTime is how long a probe may take. Probes are answered without an identity.
	ProbeTime time.Duration
	// Page is how large the page may become, in bytes, that a request asks for; 0: it asks for
	// none.
	Page func(request any) int
	// Code gives an error the code and the details that callers see.
	Code func(error) error
	// Registry takes the metrics.
	Registry prometheus.Registerer
	// Log takes what was refused.
	Log *slog.Logger
}

// Limits bound what a caller may have here at a time, once it is known who calls and before a body
// is read. They are an interceptor of handlers, too. Any goroutine may use them.
type Limits struct {
	next http.Handler
	// Hosts are the bounds of hosts' reports, and Attached those of the streams of orders to hosts.
	// Output are those of the output that hosts send. Each is counted apart from the rest, so that
	// none takes the place of another. Callers are the bounds of the rest.
	Callers, Hosts, Attached, Output *admission.Controller
	// CallerCalls is how many calls of one caller may be under way, and how many one connection may
	// carry.
	CallerCalls int
	// Connections are all that there are.
	Connections *admission.Connections
	// A caller who shows no identity is counted on the owner of the connection.
	nameless *admission.Controller
	refusals *admission.Controller
	limits   map[string]int64 // by path: other sizes of requests than SmallBytes
	work     *workSlots       // of callers
	hostWork *workSlots       // of hosts
	decoding *decoding
	machine  peerCreds // whose connections count on their users
	page     func(request any) int
	code     func(error) error
}

// NewLimits makes them, by what this process may have open at a time.
func NewLimits(o LimitsOptions) *Limits {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bursar_refused_callers_total",
		Help: "Requests and connections refused because one caller, or all of their class together, had too many.",
	}, []string{"class", "reason"})
	o.Registry.MustRegister(refused)
	class := func(name string, limits admission.Limits) *admission.Controller {
		return admission.New(limits, admission.Options{
			Refused: refused.MustCurryWith(prometheus.Labels{"class": name}), Log: o.Log.With("class", name),
			Settings: map[string]string{admission.TooManyWaiting: "limits.callerWaiting"},
		})
	}
	connections := refused.WithLabelValues("connections", "connections")
	unknown, _ := admission.Descriptors(maxUnknown, 1, 8)
	known, knownOf := admission.Descriptors(maxKnown, 3, 8)
	perCaller, perCallerOf := maxKnownCaller, 0
	if known/2 < maxKnownCaller {
		perCaller, perCallerOf = max(1, known/2), knownOf
	}
	waiting, processors := o.Waiting, runtime.GOMAXPROCS(0)
	calls := waiting + 1024
	machine := thisMachine()
	return &Limits{
		machine: machine, CallerCalls: calls,
		Callers: class("callers", admission.Limits{
			Calls: calls, AllCalls: 4*waiting + 4096, Waiting: waiting, AllWaiting: 4 * waiting, Streams: 256, AllStreams: 2048, Sends: maxSends,
			Bytes: max(callerBytes, 2*int(o.MessageBytes)), AllBytes: max(allBytes, 4*int(o.MessageBytes)),
			Answers: callerAnswers, AllAnswers: allAnswers,
		}),
		Hosts: class("hosts", admission.Limits{
			Calls: 1024, AllCalls: 8192, Bytes: max(callerBytes, int(o.SyncBytes)), AllBytes: max(allBytes, 4*int(o.SyncBytes)),
			Answers: hostAnswers, AllAnswers: allHostAnswers,
		}),
		Attached: class("orders", admission.Limits{Calls: maxAttachedCaller, AllCalls: maxAttached}),
		Output: class("output", admission.Limits{
			Calls: maxSendersHost, AllCalls: maxSenders, Bytes: senderBytesHost, AllBytes: senderBytes,
		}),
		nameless: class("nameless", admission.Limits{Calls: maxNameless}),
		refusals: class("refusals", admission.Limits{Calls: maxRefused}),
		Connections: admission.NewConnections(admission.ConnectionLimits{
			Unknown: unknown, Address: min(maxUnknownAddress, unknown), Known: known, KnownOf: knownOf, Caller: perCaller, CallerOf: perCallerOf,
			Streams: calls, First: 10 * time.Second, Nameless: namelessTime(o.ProbeTime),
		}, admission.ConnectionOptions{OwnerOf: machine.connectionOwner, Refused: connections.Inc, Log: o.Log}),
		limits: map[string]int64{
			bursarv1connect.HostServiceSyncProcedure:   o.SyncBytes,
			bursarv1connect.QuotaServiceApplyProcedure: o.MessageBytes,
			"": min(SmallBytes, o.MessageBytes),
		},
		work: newWorkSlots(processors), hostWork: newWorkSlots(processors), decoding: newDecoding(processors), page: o.Page, code: o.Code,
	}
}

// namelessTime is how long a request of a caller without an identity may take, from its header to
// the end of its answer. Only probes are answered to such callers.
func namelessTime(probe time.Duration) time.Duration { return probe + 3*time.Second }

// ConnContext is for http.Server. Every connection is counted, and remembers who is at its other
// end.
func (l *Limits) ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return l.Connections.Context(withPeerCred(ctx, conn), conn)
}

// Largest is the size of the largest request of a path, decompressed.
func (l *Limits) Largest(path string) int64 {
	if limit, other := l.limits[path]; other {
		return limit
	}
	if strings.HasPrefix(path, "/grpc.") {
		return ProbeBytes
	}
	return l.limits[""]
}

// DecodedBytes is what the parts of a request may take in memory, in bytes, if limit bytes of it
// are allowed encoded. Real requests take ten times their size, sets of small rules twenty times.
// A large report is bounded closer: it is largest if each engine has a long record.
func DecodedBytes(limit int64) int64 { return min(32*limit, max(32<<20, 8*limit)) }

func (l *Limits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := CallerOf(r.Context())
	c.limits = l.Callers
	switch r.URL.Path {
	case bursarv1connect.HostServiceSyncProcedure, bursarv1connect.HostServiceRegisterProcedure, bursarv1connect.HostServiceDeregisterProcedure:
		c.limits = l.Hosts
	case bursarv1connect.HostServiceAttachProcedure:
		c.limits = l.Attached
	case bursarv1connect.HostServiceSendOutputProcedure:
		c.limits = l.Output
	}
	if c.Actor.Name == "" {
		l.serveShort(w, r, c, l.nameless, l.Connections.Owner(r.Context()), l.serve)
		return
	}
	ended, err := l.countCall(c, r)
	if err != nil {
		l.refuse(w, r, c, err)
		return
	}
	defer ended()
	l.serve(w, r)
	admission.Send(w, r)
}

// refuse answers a call that is one too many. A caller who takes no refusals loses the connection.
// Agents and coordinators make calls of several callers over one connection, which neither waits
// nor ends because of one of these.
func (l *Limits) refuse(w http.ResponseWriter, r *http.Request, c *Caller, why error) {
	l.serveShort(w, r, c, l.refusals, c.account, func(w http.ResponseWriter, r *http.Request) {
		if work := l.Connections.Work(r.Context()); work != nil {
			work.End() // nothing is done for it
		}
		if c.isShared() {
			admission.LetThrough(r.Context()) // other callers of the connection do not wait for it
		} else {
			l.Connections.DelayRefusal(r)
		}
		admission.Refuse(w, r, why)
	})
}

// serveDenied answers a request that is not let through. If it is known whose it is, it takes turns
// with the others of that caller. Callers who are not known have no turns: those behind one address
// would wait for one another.
func (l *Limits) serveDenied(w http.ResponseWriter, r *http.Request, c *Caller, serve http.HandlerFunc) {
	of := l.Connections.Owner(r.Context())
	if c.isShared() {
		of = c.account
	}
	l.serveShort(w, r, c, l.nameless, of, func(w http.ResponseWriter, r *http.Request) {
		if c.Actor.Name == "" {
			serve(w, r)
			return
		}
		if c.isShared() {
			admission.LetThrough(r.Context()) // other callers of the connection do not wait for it
		}
		work := l.slotOf(r, l.work, c.account)
		if work.enter(r.Context()) != nil {
			return // the caller has gone
		}
		defer work.handled()
		serve(w, r)
	})
}

// serveShort answers a request with little, such as a refusal. It counts until its answer is sent,
// and not only made. One too many is not answered, which would cost as much as to let it through:
// it ends its connection. Of a connection that several callers share, it ends its stream.
func (l *Limits) serveShort(w http.ResponseWriter, r *http.Request, c *Caller, limits *admission.Controller, of admission.Caller, serve http.HandlerFunc) {
	ended, err := limits.Begin(of)
	if err != nil && c.isShared() {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		l.Connections.Cut(r.Context())
		return
	}
	defer ended()
	serve(w, r)
	admission.Send(w, r)
}

// serve bounds the body of a counted request, and what is held of it.
func (l *Limits) serve(w http.ResponseWriter, r *http.Request) {
	c := CallerOf(r.Context())
	intake := c.limits.Intake(c.account)
	defer intake.End()
	if err := intake.Header(r); err != nil {
		admission.Refuse(w, r, err)
		return
	}
	limit := l.Largest(r.URL.Path)
	// The message of a GET is in its address.
	if r.URL.RawQuery != "" && r.URL.Query().Has("compression") {
		if err := intake.Add(int(limit)); err != nil {
			admission.Refuse(w, r, err)
			return
		}
	}
	work := l.workSlot(c, r)
	if work != nil {
		admission.LetThrough(r.Context()) // it takes turns from here on
	}
	if work.enter(r.Context()) != nil {
		return // the caller has gone
	}
	defer work.handled()
	d := &decodeSlot{decoding: l.decoding, caller: c.account}
	defer d.release()
	defer c.answerSent()
	r = r.WithContext(context.WithValue(context.WithValue(r.Context(), decodeSlotKey{}, d), workSlotKey{}, work))
	admission.Body(r, admission.Bounds{
		Limit: limit, Intake: intake, TooLarge: func() error { return l.code(tooLarge("more than "+strconv.FormatInt(limit, 10), limit)) },
		Whole: func(size int64) error { //nolint:contextcheck // the context is the request's
			if err := work.cameWhole(r.Context()); err != nil {
				return err
			}
			return d.acquire(r.Context(), size)
		},
		Single: !strings.HasPrefix(r.URL.Path, "/grpc.reflection.") && !isUnending(r.URL.Path), Unending: isUnending(r.URL.Path),
	})
	l.next.ServeHTTP(&decodedWriter{ResponseWriter: w, slot: d, work: work}, r)
}

// workSlot is for a call. Probes, whose callers have no identity, are not counted. Hosts do not
// count as active callers for others, because there are always some.
func (l *Limits) workSlot(c *Caller, r *http.Request) *workSlot {
	switch {
	case c.Actor.Name == "":
		return nil
	case c.limits == l.Hosts, c.limits == l.Attached, c.limits == l.Output:
		return l.slotOf(r, l.hostWork, c.account)
	default:
		return l.slotOf(r, l.work, c.account)
	}
}

// slotOf is for a request of a caller. A connection of HTTP/1 keeps it as long as all its requests
// are of one caller: then a request enters before its header is read, and leaves when its answer is
// sent.
func (l *Limits) slotOf(r *http.Request, work *workSlots, caller admission.Caller) *workSlot {
	slot := &workSlot{work: work, caller: caller}
	if r.ProtoMajor != 1 {
		return slot
	}
	switch has := l.Connections.Work(r.Context()).(type) {
	case nil:
		slot.kept = l.Connections.KeepWork(r.Context(), slot)
	case *workSlot:
		if has.work == work && has.caller == caller {
			return has
		}
		has.release()
		l.Connections.KeepWork(r.Context(), ofSeveral{})
	}
	return slot
}

// ofSeveral is for a connection that has had requests of several callers: nobody knows whose the
// next one is.
type ofSeveral struct{}

func (ofSeveral) Begin() {}
func (ofSeveral) End()   {}

// countCall counts a call and its connection.
func (l *Limits) countCall(c *Caller, r *http.Request) (ended func(), err error) {
	maker := c.Maker.ChargedName()
	owner := admission.Caller{ID: "caller/" + maker, Name: maker}
	// An anonymous caller that was let in counts among the known: its connection is not closed
	// during a request.
	if c.isAnonymous() {
		owner = c.account
	}
	if err := l.Connections.Identify(r.Context(), owner); err != nil {
		return nil, err
	}
	return c.limits.Begin(c.account)
}

var _ connect.Interceptor = (*Limits)(nil)

// WrapUnary lets others decode, because the message is valid, and counts requests that wait, here
// or at the leader, and large answers.
func (l *Limits) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		releaseDecodeSlot(ctx)
		c := CallerOf(ctx)
		if convert.Wait(req.Any()) > 0 { // it is answered only when its wait is over
			ended, err := c.countWait()
			if err != nil {
				return nil, err
			}
			c.waits = &ended
			defer func() {
				if c.waits != nil {
					ended()
				}
			}()
		}
		if err := c.countPage(l.page(req.Any())); err != nil {
			return nil, err
		}
		res, err := next(ctx, req)
		if err == nil && readlimit.Of(req.Spec().Procedure) >= readlimit.Agent {
			err = c.countAnswer(res.Any())
			if err != nil && cutAnswer(req.Any(), res.Any()) {
				err = nil
			}
		}
		if err != nil {
			return nil, err
		}
		return res, nil
	}
}

// WrapStreamingHandler counts a stream, here or from the leader, and lets others decode once its
// request was received.
func (l *Limits) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ended, err := CallerOf(ctx).countStream()
		if err != nil {
			return err
		}
		defer ended()
		return next(ctx, &decodedStream{conn, ctx})
	}
}

// WrapStreamingClient implements connect.Interceptor; this is a server.
func (l *Limits) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}
