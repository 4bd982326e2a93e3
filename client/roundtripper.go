package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/readlimit"
)

// errSpeaksTLS is what is wrong if a server that speaks TLS was called without it.
var errSpeaksTLS = errors.New("the server speaks TLS here")

// lostAlert is how net/http says that a connection of HTTP/2 ended before it began. A server that
// does not like our certificate has said why by then, but that is thrown away.
const lostAlert = "http2: client conn could not be established"

// alertTime is how long the server has to say so once more.
const alertTime = 2 * time.Second

// mayLackAlert reports whether the server may have said why it hung up: what is sent after that
// resets the connection, and its last words are lost with it.
func mayLackAlert(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || strings.Contains(err.Error(), lostAlert)
}

// roundTripper makes errors of answers that servers give in words alone: that clients must use
// TLS, or that our certificate is wrong. It keeps tokens off a network without TLS, and takes
// no answer from a coordinator of another cluster.
type roundTripper struct {
	*http.Transport

	pin *Pin // nil: coordinators of every cluster are called
}

// RoundTrip makes an error of such an answer.
func (p roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := refuseCleartext(req); err != nil {
		closeBody(req)
		return nil, err
	}
	response, err := p.Transport.RoundTrip(req)
	if err == nil {
		response, err = p.checkCluster(response)
	}
	if err != nil && mayLackAlert(err) {
		err = p.findAlert(req, err)
	}
	if err == nil {
		readlimit.Bound(req, response)
	}
	if err != nil || response.StatusCode != http.StatusBadRequest || req.URL.Scheme != "http" || response.Header.Get("Content-Type") != "" {
		return response, err
	}
	// what could not be read cannot be read again either
	said, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if bytes.Contains(said, []byte("HTTP request to an HTTPS server")) {
		_ = response.Body.Close() // nothing else is in it
		return nil, &credential.TrustError{Err: errSpeaksTLS, Advice: "want https://"}
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(said), response.Body), response.Body}
	return response, err
}

// checkCluster refuses the answer of a coordinator of another cluster than that of the pin, unless
// that coordinator says that its store has taken the place of the pin's.
func (p roundTripper) checkCluster(response *http.Response) (*http.Response, error) {
	if p.pin == nil || p.pin.Held().In(response.Header) {
		return response, nil
	}
	from := clusterid.Of(response.Header)
	p.pin.Replace(from, response.Header.Get(clusterid.ReplacesHeader))
	url := response.Request.URL
	if err := p.pin.Check(url.Scheme+"://"+url.Host, from); err != nil {
		_ = response.Body.Close() // nothing of it counts
		return nil, err
	}
	return response, nil
}

// findAlert connects once more, and only listens. If the server says nothing about trust, the
// error stays.
func (p roundTripper) findAlert(req *http.Request, lost error) error {
	if p.DialTLSContext == nil || req.URL.Scheme != "https" {
		return lost
	}
	port := req.URL.Port()
	if port == "" {
		port = "443"
	}
	ctx, cancel := context.WithTimeout(req.Context(), alertTime)
	defer cancel()
	conn, err := p.DialTLSContext(ctx, "tcp", net.JoinHostPort(req.URL.Hostname(), port))
	if err == nil {
		defer conn.Close()
		// every connection of TLS has deadlines
		_ = conn.SetReadDeadline(time.Now().Add(alertTime))
		_, err = conn.Read(make([]byte, 1))
	}
	if _, heard := errors.AsType[*credential.TrustError](credential.Describe(err)); heard {
		return err
	}
	return lost
}
