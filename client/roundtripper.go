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

// errSpeaksTLS is the error of a call without TLS to a server that uses TLS.
var errSpeaksTLS = errors.New("the server speaks TLS here")

// lostAlert is the text of net/http's error for an HTTP/2 connection that ended before it was
// established. A server that rejects the client's certificate has sent the reason by then, but
// net/http discards it.
const lostAlert = "http2: client conn could not be established"

// alertTime is the time for the server to send the reason again.
const alertTime = 2 * time.Second

// mayLackAlert reports whether the server may have sent a reason for closing: data that is sent
// after that resets the connection, and the reason is lost.
func mayLackAlert(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || strings.Contains(err.Error(), lostAlert)
}

// roundTripper makes errors of answers that servers give only as text: that clients must use TLS,
// or that the client's certificate is wrong. It sends no tokens over a network without TLS, and
// refuses answers from coordinators of another cluster.
type roundTripper struct {
	*http.Transport

	pin *Pin // nil: coordinators of every cluster are accepted
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
	// after an error, reading the body below fails again
	said, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if bytes.Contains(said, []byte("HTTP request to an HTTPS server")) {
		_ = response.Body.Close() // the body has nothing else
		return nil, &credential.TrustError{Err: errSpeaksTLS, Advice: "want https://"}
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(said), response.Body), response.Body}
	return response, err
}

// checkCluster refuses the answer of a coordinator of another cluster than the pin's, unless that
// coordinator says that its store has replaced the pin's.
func (p roundTripper) checkCluster(response *http.Response) (*http.Response, error) {
	if p.pin == nil || p.pin.Held().In(response.Header) {
		return response, nil
	}
	from := clusterid.Of(response.Header)
	p.pin.Replace(from, response.Header.Get(clusterid.ReplacesHeader))
	url := response.Request.URL
	if err := p.pin.Check(url.Scheme+"://"+url.Host, from); err != nil {
		_ = response.Body.Close() // the answer is discarded
		return nil, err
	}
	return response, nil
}

// findAlert connects again, and only reads. If the server says nothing about trust, the error
// stays.
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
		// every TLS connection supports deadlines
		_ = conn.SetReadDeadline(time.Now().Add(alertTime))
		_, err = conn.Read(make([]byte, 1))
	}
	if _, heard := errors.AsType[*credential.TrustError](credential.Describe(err)); heard {
		return err
	}
	return lost
}
