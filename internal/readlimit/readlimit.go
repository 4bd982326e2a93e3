// Package readlimit limits how much of an answer a client reads, so that no server, genuine or not,
// can fill its memory: headers, bodies on the wire, and decompressed messages. It reads nothing by
// itself, and sets no deadlines. Everything here is safe for concurrent use.
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
	// Headers is the largest size of an answer's headers, in bytes. Ours have some hundreds.
	Headers = 64 << 10
	// Unread is how many unread bytes of an answer over HTTP/2 are accepted. Go's default is 4 MiB
	// per stream.
	Unread = 128 << 10
	// Message is the size of the largest decompressed message: a page of 1,000 allocations, each
	// with 16 KiB of labels and wishes.
	Message = 32 << 20
	// Agent is the size of the largest message to an agent: the complete answer to a host with
	// 2,000 engines, each requested with the largest request (convert.MaxAllocationSize) plus a
	// kilobyte from the ledger. A host with ledger.HostLiveBytes, which is less, gets no new
	// grants: the agent would reject a larger answer, and lose the stops in it.
	Agent = 18 << 20
	// small is the size of any other message: one allocation, a refusal with all of its shortfalls,
	// or a change in a watch.
	small = 2 << 20
	// failure is the size of an error response.
	failure = 1 << 20
)

// Of returns the size in bytes of the largest message that is read as the answer of a procedure.
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

// Transport limits the bodies of answers by the procedure at the end of the request's path. It does
// not limit streams, which may be endless; connect.WithReadMaxBytes limits their messages.
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

// Bound applies Transport's limit to one answer.
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

// Messages limits the size of decompressed messages, in bytes. It stops decompressing a larger one
// at the limit. With connect.WithReadMaxBytes alone, connect decompresses the whole message to
// report its size: 1 MiB of compressed data can take seconds.
func Messages(most int) connect.ClientOption {
	return connect.WithClientOptions(
		connect.WithReadMaxBytes(most),
		connect.WithAcceptCompression("gzip",
			func() connect.Decompressor { return &unpacker{most: int64(most)} },
			func() connect.Compressor { return gzip.NewWriter(io.Discard) }),
	)
}

// unpacker returns an error if its decompressed data becomes too large.
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

// procedureOf returns the end of a path, which names the procedure; a proxy may add a prefix.
func procedureOf(path string) string {
	method := strings.LastIndexByte(path, '/')
	if method < 0 {
		return path
	}
	return path[max(0, strings.LastIndexByte(path[:method], '/')):]
}

// body returns an error if it is too large.
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
