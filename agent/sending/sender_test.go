package sending

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// coordinator takes output as a test says.
type coordinator struct {
	bursarv1connect.UnimplementedHostServiceHandler

	take  func(*connect.ClientStream[bursarv1.SendOutputRequest]) error
	calls atomic.Int64
	url   string
}

func (c *coordinator) SendOutput(_ context.Context, sent *connect.ClientStream[bursarv1.SendOutputRequest]) (*bursarv1.SendOutputResponse, error) {
	c.calls.Add(1)
	return &bursarv1.SendOutputResponse{}, c.take(sent)
}

func serve(t *testing.T, take func(*connect.ClientStream[bursarv1.SendOutputRequest]) error) *coordinator {
	t.Helper()
	c := &coordinator{take: take}
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewHostServiceHandler(c))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// output sends the same text to everybody.
type output struct {
	text    string
	err     error
	endless bool

	mu      sync.Mutex
	readers []string // guarded by mu
	began   chan struct{}
}

func (o *output) Send(ctx context.Context, caller string, _ *bursarv1.LogsRequest, send func(*bursarv1.LogsResponse) error) error {
	o.mu.Lock()
	o.readers = append(o.readers, caller)
	o.mu.Unlock()
	if o.began != nil {
		close(o.began)
	}
	if o.err != nil {
		return o.err
	}
	next := int64(0)
	for first := true; first || o.endless; first = false {
		next += int64(len(o.text))
		if err := send(&bursarv1.LogsResponse{NextOffset: next, Piece: &bursarv1.LogsResponse_Data{Data: []byte(o.text)}}); err != nil {
			return err
		}
	}
	if o.began != nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return send(&bursarv1.LogsResponse{NextOffset: next, Piece: &bursarv1.LogsResponse_End{End: &bursarv1.LogsEnd{}}})
}

// newSender is a sender of host h1 with these coordinators.
func newSender(t *testing.T, o *output, log io.Writer, own ...string) *Sender {
	t.Helper()
	return New(Options{
		HostID: func() string { return "h1" }, Incarnation: func() uint64 { return 7 }, Output: o, Coordinators: func() []string { return own },
		Dial: func(url string) (bursarv1connect.HostServiceClient, func(), error) {
			transport := &http.Transport{Protocols: new(http.Protocols)}
			transport.Protocols.SetUnencryptedHTTP2(true)
			return bursarv1connect.NewHostServiceClient(&http.Client{Transport: transport}, url), transport.CloseIdleConnections, nil
		},
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
}

func order(url string) *bursarv1.SendOutputOrder {
	return &bursarv1.SendOutputOrder{Logs: &bursarv1.LogsRequest{Id: "1"}, Url: url, Ticket: []byte("ticket"), Reader: "alice"}
}

func TestOutputIsSentWithTheTicket(t *testing.T) {
	var text strings.Builder
	ended := false
	c := serve(t, func(sent *connect.ClientStream[bursarv1.SendOutputRequest]) error {
		if !sent.Receive() || string(sent.Msg().GetTicket()) != "ticket" || sent.Msg().GetHostId() != "h1" || sent.Msg().GetIncarnation() != 7 {
			t.Errorf("first: %v", sent.Msg())
		}
		for sent.Receive() {
			text.Write(sent.Msg().GetOutput().GetData())
			ended = sent.Msg().GetOutput().GetEnd() != nil
		}
		return sent.Err()
	})
	o := &output{text: "hello"}
	s := newSender(t, o, io.Discard, c.url)
	s.Send(t.Context(), order(c.url))
	s.Wait()
	if text.String() != "hello" || !ended || o.readers[0] != "alice" {
		t.Errorf("%q, ended %v, for %v", text.String(), ended, o.readers)
	}
}

// A leader that lies about where a reader is gets nothing sent there.
func TestOutputGoesToOwnCoordinatorsAlone(t *testing.T) {
	own := serve(t, func(*connect.ClientStream[bursarv1.SendOutputRequest]) error { return nil })
	evil := serve(t, func(*connect.ClientStream[bursarv1.SendOutputRequest]) error { return nil })
	var log strings.Builder
	o := &output{text: "secret"}
	s := newSender(t, o, &log, own.url)
	for _, url := range []string{evil.url, own.url + "/", own.url + "@evil", strings.ToUpper(own.url), own.url + "/x", "unix:/tmp/x", "http://"} {
		s.Send(t.Context(), order(url))
		s.Wait()
	}
	if evil.calls.Load() != 0 || own.calls.Load() != 0 || len(o.readers) != 0 || !strings.Contains(log.String(), "is not among the agent's coordinators") {
		t.Errorf("%d calls elsewhere, %d here, %d read: %s", evil.calls.Load(), own.calls.Load(), len(o.readers), log.String())
	}
	if s := newSender(t, o, io.Discard); s.isOwn("") == nil {
		t.Error("an agent that knows no coordinator sends output")
	}
}

// A reader hears why there is no output.
func TestAProblemIsTold(t *testing.T) {
	for _, c := range []struct {
		err  error
		code string
	}{
		{connect.NewError(connect.CodeFailedPrecondition, errors.New("it is elsewhere")), "failed_precondition"},
		{errors.New("it is elsewhere"), "unavailable"},
	} {
		var problem *bursarv1.OutputProblem
		own := serve(t, func(sent *connect.ClientStream[bursarv1.SendOutputRequest]) error {
			for sent.Receive() {
				problem = sent.Msg().GetProblem()
			}
			return sent.Err()
		})
		s := newSender(t, &output{err: c.err}, io.Discard, own.url)
		s.Send(t.Context(), order(own.url))
		s.Wait()
		if problem.GetCode() != c.code || problem.GetMessage() != "it is elsewhere" {
			t.Errorf("%v: %v", c.err, problem)
		}
	}
}

// The output is read no further when the coordinator takes no more, when the leader says so, and
// when the agent ends.
func TestSendingEnds(t *testing.T) {
	gone := serve(t, func(sent *connect.ClientStream[bursarv1.SendOutputRequest]) error {
		sent.Receive()
		return nil
	})
	s := newSender(t, &output{text: strings.Repeat("x", 64<<10), endless: true}, io.Discard, gone.url)
	s.Send(t.Context(), order(gone.url))
	s.Wait()

	takes := serve(t, func(sent *connect.ClientStream[bursarv1.SendOutputRequest]) error {
		for sent.Receive() {
		}
		return nil
	})
	for name, end := range map[string]func(*Sender, context.CancelFunc){
		"the leader": func(s *Sender, _ context.CancelFunc) {
			s.Stop(&bursarv1.StopSendingOrder{Ticket: []byte("another")})
			s.Stop(&bursarv1.StopSendingOrder{Ticket: []byte("ticket")})
		},
		"the agent": func(_ *Sender, cancel context.CancelFunc) { cancel() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		o := &output{text: "x", began: make(chan struct{})}
		s := newSender(t, o, io.Discard, takes.url)
		s.Send(ctx, order(takes.url))
		<-o.began
		end(s, cancel)
		ended := make(chan struct{})
		go func() {
			s.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it goes on", name)
		}
		cancel()
	}
}
