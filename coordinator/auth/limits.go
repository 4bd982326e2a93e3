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
	// ProbeBytes is the limit for the services of health and reflection, whose requests name a
	// service or a file.
	ProbeBytes = 4 << 10
	// framing is how much the heads of messages, and the bytes after the only message, add to a
	// body at most.
	framing = 64
	// callerBytes bounds the bytes of one caller's requests that are held at a time, allBytes those
	// of all callers.
	callerBytes = 4 << 20
	allBytes    = 64 << 20
	// callerAnswers bounds the bytes of answers to one caller from before they are made until they
	// are sent, allAnswers those to all callers. hostAnswers and allHostAnswers bound the answers
	// to hosts' reports, which are larger.
	callerAnswers, allAnswers   = 16 << 20, 256 << 20
	hostAnswers, allHostAnswers = 2 * readlimit.Agent, 512 << 20
	// maxAttached bounds the streams of orders: one for each host, and some broken ones that were
	// not noticed yet. Hosts without identities of their own count as one caller.
	maxAttached, maxAttachedCaller = 65536, 16384
	// maxSenders bounds the streams of output, maxSendersHost those of one host. The bytes are
	// those of messages that are being read: one of each stream.
	maxSenders, maxSendersHost       = 2048, 512
	senderBytes, senderBytesHost int = maxSenders * SmallBytes, maxSendersHost * SmallBytes
	// countedFrom is the smallest size of an answer that is counted although it was not counted
	// before it was made.
	countedFrom = 8 << 10
	// maxKnown bounds the connections with an identity, maxKnownCaller those of one caller.
	maxKnown, maxKnownCaller = 32768, 8192
	// maxUnknown bounds the connections without an identity, maxUnknownAddress those of one
	// address, or of one user of this machine. Agents behind one gateway that all reconnect at once
	// have no identity for a moment.
	maxUnknown, maxUnknownAddress = 8192, 1024
	// maxNameless bounds the requests in flight over these connections, by owner. maxRefused bounds
	// the refused requests of one caller whose refusals are not sent yet.
	maxNameless, maxRefused = 1024, 1024
	// maxSends is how many messages a second the streams of one caller may send together. A message
	// costs some 10 µs, so a caller with many streams takes a tenth of a processor. A stream that
	// falls behind because of it is cut off, like one with a slow client.
	maxSends = 10_000
	// HeaderBytes bounds the texts of a request's header. A call keeps its header while it waits,
	// so the header counts as bytes of the request.
	HeaderBytes = 16 << 10
)

// LimitsOptions configure Limits.
type LimitsOptions struct {
	// Waiting is how many requests of one caller may wait for resources.
	Waiting int
	// MessageBytes bounds a request that applies rules, and SyncBytes a report of a host, in bytes,
	// decompressed. The bound of other requests is SmallBytes or less.
	MessageBytes, SyncBytes int64
	// ProbeTime bounds a probe. Probes are answered without an identity.
	ProbeTime time.Duration
	// Page returns the largest size in bytes of the page that a request asks for; 0: it asks for
	// none.
	Page func(request any) int
	// Code adds the code and the details for callers to an error.
	Code func(error) error
	// Registry registers the metrics.
	Registry prometheus.Registerer
	// Log gets the refusals.
	Log *slog.Logger
}

// Limits bound the use of a caller, after its authentication and before the body is read. They are
// also an interceptor of handlers. Any goroutine may use them.
type Limits struct {
	next http.Handler
	// Hosts bounds hosts' reports, Attached the streams of orders to hosts, and Output the output
	// that hosts send. Callers bounds all other calls. Each counts separately, so that none takes
	// the place of another.
	Callers, Hosts, Attached, Output *admission.Controller
	// CallerCalls is how many calls of one caller may be in flight, and how many one connection may
	// carry.
	CallerCalls int
	// Connections counts all connections.
	Connections *admission.Connections
	// These count a caller without an identity on the owner of the connection.
	nameless *admission.Controller
	refusals *admission.Controller
	limits   map[string]int64 // by path: sizes of requests other than SmallBytes
	work     *workSlots       // of callers
	hostWork *workSlots       // of hosts
	decoding *decoding
	machine  peerCreds // finds the users of local connections
	page     func(request any) int
	code     func(error) error
}

// NewLimits returns limits that respect the limit of descriptors of this process.
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

// namelessTime bounds a request of a caller without an identity, from its header to the end of its
// answer. Such callers get answers only to probes.
func namelessTime(probe time.Duration) time.Duration { return probe + 3*time.Second }

// ConnContext is for http.Server. It counts each connection, and stores its peer for the
// authentication.
func (l *Limits) ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return l.Connections.Context(withPeerCred(ctx, conn), conn)
}

// Largest returns the size limit of requests of a path, decompressed.
func (l *Limits) Largest(path string) int64 {
	if limit, other := l.limits[path]; other {
		return limit
	}
	if strings.HasPrefix(path, "/grpc.") {
		return ProbeBytes
	}
	return l.limits[""]
}

// DecodedBytes bounds the memory of a decoded request, in bytes, if its encoding may have limit
// bytes. Real requests take ten times their size, sets of small rules twenty times. A large report
// has a closer bound: it is largest if each engine has a long record.
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

// refuse answers a call beyond a limit. A caller that does not read its refusals loses the
// connection. Agents and coordinators make calls of several callers over one connection. Such a
// connection neither waits nor ends because of one caller.
func (l *Limits) refuse(w http.ResponseWriter, r *http.Request, c *Caller, why error) {
	l.serveShort(w, r, c, l.refusals, c.account, func(w http.ResponseWriter, r *http.Request) {
		if work := l.Connections.Work(r.Context()); work != nil {
			work.End() // the refused request needs no work
		}
		if c.isShared() {
			admission.LetThrough(r.Context()) // other callers of the connection do not wait for it
		} else {
			l.Connections.DelayRefusal(r)
		}
		admission.Refuse(w, r, why)
	})
}

// serveDenied answers a request that the authenticator has refused. If the caller is known, the
// answer takes turns with the caller's other requests. Unknown callers take no turns, because all
// callers behind one address would wait for each other.
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

// serveShort answers a request that needs little work, such as a refused one. The request counts
// until its answer is sent. A request beyond the limit gets no answer, which would cost as much as
// to admit it: its connection ends. If several callers share the connection, only its stream ends.
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

// serve bounds the body and the memory of a counted request.
func (l *Limits) serve(w http.ResponseWriter, r *http.Request) {
	c := CallerOf(r.Context())
	intake := c.limits.Intake(c.account)
	defer intake.End()
	if err := intake.Header(r); err != nil {
		admission.Refuse(w, r, err)
		return
	}
	limit := l.Largest(r.URL.Path)
	// The message of a GET is in its URL.
	if r.URL.RawQuery != "" && r.URL.Query().Has("compression") {
		if err := intake.Add(int(limit)); err != nil {
			admission.Refuse(w, r, err)
			return
		}
	}
	work := l.workSlot(c, r)
	if work != nil {
		admission.LetThrough(r.Context()) // from here on the work slot bounds it
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

// workSlot returns the slot of a call. Probes, whose callers have no identity, have none. Hosts do
// not count as active callers for others, because some are always active.
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

// slotOf returns the slot of a caller's request. An HTTP/1 connection keeps the slot while all its
// requests are of one caller: then a request enters before its header is read, and leaves when its
// answer is sent.
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

// ofSeveral is the Work of a connection that has had requests of several callers: the caller of the
// next one is not known.
type ofSeveral struct{}

func (ofSeveral) Begin() {}
func (ofSeveral) End()   {}

// countCall counts a call and its connection.
func (l *Limits) countCall(c *Caller, r *http.Request) (ended func(), err error) {
	maker := c.Maker.ChargedName()
	owner := admission.Caller{ID: "caller/" + maker, Name: maker}
	// An anonymous caller that was admitted counts among the known: its connection is not closed
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

// WrapUnary gives back the decoding slot, because the message is valid. It counts large answers,
// and requests that wait, here or at the leader.
func (l *Limits) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		releaseDecodeSlot(ctx)
		c := CallerOf(ctx)
		if convert.Wait(req.Any()) > 0 { // the answer comes when the wait is over
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

// WrapStreamingHandler counts a stream, of this coordinator or forwarded to the leader. It gives
// back the decoding slot when the stream's request was received.
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
