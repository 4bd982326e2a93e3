package yarn

import (
	"context"
	"io"
	"net/http"
	"strings"
)

// tokenMaker makes tokens that prove our identity to a service.
type tokenMaker interface {
	// token returns a token for a service such as HTTP/rm1.example.com. It is valid for one
	// request.
	token(ctx context.Context, service string) (string, error)
}

// negotiate authenticates by SPNEGO (RFC 4559), and only if the server demands it. A server answers
// a valid token with a cookie that lasts for hours, so most requests need no token. A server
// without cookies demands a token each time, which costs one more round trip.
type negotiate struct {
	base    http.RoundTripper
	tickets tokenMaker
	service string
}

// RoundTrip sends a request. If the server answers 401 and offers Negotiate, it sends the request
// again with a token. Requests have no body.
func (n negotiate) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := n.base.RoundTrip(request)
	if err != nil || !offersNegotiate(response) {
		return response, err
	}
	// Reads the body to its end, so that the second request uses the same connection.
	_, _ = io.CopyN(io.Discard, response.Body, maxSaid)
	response.Body.Close()
	token, err := n.tickets.token(request.Context(), n.service)
	if err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Negotiate "+token)
	return n.base.RoundTrip(request)
}

// offersNegotiate checks every offer: a server may list others first, or several in one line.
func offersNegotiate(response *http.Response) bool {
	if response.StatusCode != http.StatusUnauthorized {
		return false
	}
	for _, value := range response.Header.Values("WWW-Authenticate") {
		for offer := range strings.SplitSeq(value, ",") {
			scheme, _, _ := strings.Cut(strings.TrimSpace(offer), " ")
			if strings.EqualFold(scheme, "Negotiate") {
				return true
			}
		}
	}
	return false
}
