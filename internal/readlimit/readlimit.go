// Package readlimit bounds what a client reads of an answer, so that no server, real or false,
// fills its memory: headers, bodies as they cross the wire, and messages once they are
// decompressed. It reads nothing by itself, and gives no call a deadline. Many goroutines may use
// everything here.
package readlimit

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

const (
	// Headers is the size in bytes of an answer's headers that is taken. Ours have some hundreds.
	Headers = 64 << 10
	// Unread is how many unread bytes of an answer over HTTP/2 are accepted. Go would take 4 MiB,
	// for each stream.
	Unread = 128 << 10
	// Message is the size of the largest message, decompressed: a page of 1,000 allocations with
	// 16 KiB of labels and wishes each.
	Message = 32 << 20
	// Agent is the size of the largest message that an agent is sent: the complete answer to a
	// host with 2,000 engines, each of them requested with as much as a request may say
	// (convert.MaxAllocationSize), and the kilobyte that the ledger adds. A host with
	// ledger.HostLiveBytes, which is less, gets no new grants: a larger answer would be refused,
	// and its stops would not arrive.
	Agent = 18 << 20
	// small is the size of any other message: of one allocation, a refusal with all of its
	// shortfalls, or a change that is watched.
	small = 2 << 20
	// failure is the size of an answer that is an error.
	failure = 1 << 20
)

// Of is the size in bytes of the largest message that is read as the answer to a procedure.
func Of(procedure string) int {
	switch procedure {
	case bursarv1connect.AllocationServiceListProcedure, bursarv1connect.HostServiceListProcedure, bursarv1connect.HostServiceGetProcedure,
		bursarv1connect.QuotaServiceListProcedure, bursarv1connect.QuotaServiceGetProcedure, bursarv1connect.QuotaServiceApplyProcedure,
		bursarv1connect.QueueServiceListProcedure, bursarv1connect.QueueServiceGetProcedure, bursarv1connect.QueueServiceListProvidersProcedure,
		bursarv1connect.QueueServiceCheckProviderProcedure, bursarv1connect.ClusterServiceAuditProcedure:
		return Message
	case bursarv1connect.HostServiceSyncProcedure:
		return Agent
	}
	return small
}

// Transport bounds the bodies of answers by the procedure that a request's path ends with. A
// stream goes on for as long as it likes; its messages are bounded by connect.WithReadMaxBytes.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err //nolint:wrapcheck // as it is
	}
	Bound(req, response)
	return response, nil
}

// Bound is what Transport does to one answer.
func Bound(req *http.Request, response *http.Response) {
	limit := int64(failure)
	if response.StatusCode == http.StatusOK {
		if strings.HasPrefix(response.Header.Get("Content-Type"), "application/connect+") {
			return
		}
		limit = int64(Of(procedureOf(req.URL.Path)))
	}
	response.Body = &body{ReadCloser: response.Body, left: limit, limit: limit}
}

// CloseIdleConnections is for http.Client.
func (t transport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// Messages bounds the messages that are read, in bytes and decompressed. A larger one is not
// unpacked to its end. With a bound alone, connect unpacks all of it to say how large it is: 1 MiB
// can take seconds.
func Messages(most int) connect.ClientOption {
	return connect.WithClientOptions(
		connect.WithReadMaxBytes(most),
		connect.WithAcceptCompression("gzip",
			func() connect.Decompressor { return &unpacker{most: int64(most)} },
			func() connect.Compressor { return gzip.NewWriter(io.Discard) }),
	)
}

// unpacker ends with an error if what it reads becomes too large.
type unpacker struct {
	gzip.Reader

	left, most int64
}

// Reset begins another message.
func (u *unpacker) Reset(packed io.Reader) error {
	u.left = u.most
	return u.Reader.Reset(packed) //nolint:wrapcheck // as it is
}

// Read implements io.Reader.
func (u *unpacker) Read(p []byte) (int, error) {
	if u.left < 0 {
		return 0, tooLarge(u.most)
	}
	n, err := u.Reader.Read(p)
	u.left -= int64(n)
	return n, err //nolint:wrapcheck // io.EOF must stay as it is
}

// procedureOf is the end of a path that says which procedure is called; what may stand before it
// is a proxy's.
func procedureOf(path string) string {
	method := strings.LastIndexByte(path, '/')
	if method < 0 {
		return path
	}
	return path[max(0, strings.LastIndexByte(path[:method], '/')):]
}

// body ends with an error if it is too large.
type body struct {
	io.ReadCloser

	left, limit int64
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, tooLarge(b.limit)
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, tooLarge(b.limit)
	}
	return n, err //nolint:wrapcheck // io.EOF must stay as it is
}

func tooLarge(limit int64) error {
	return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the answer is larger than %d bytes, which no coordinator or agent sends", limit))
}
