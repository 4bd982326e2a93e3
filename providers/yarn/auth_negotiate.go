package yarn

import (
	"context"
	"io"
	"net/http"
	"strings"
)

// tokenMaker makes tokens that prove to a service who we are.
type tokenMaker interface {
	// token returns one for a service such as HTTP/rm1.example.com, good for one request.
	token(ctx context.Context, service string) (string, error)
}

// negotiate authenticates by SPNEGO (RFC 4559), and only when it is asked to: a server answers a
// good token with a cookie, which is good for hours, so that most requests need no token. A server
// that gives no cookie asks each time, and costs one more round trip.
type negotiate struct {
	base    http.RoundTripper
	tickets tokenMaker
	service string
}

// RoundTrip sends a request, and once more with a token if the server answers 401 and offers
// Negotiate. Requests have no body.
func (n negotiate) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := n.base.RoundTrip(request)
	if err != nil || !offersNegotiate(response) {
		return response, err
	}
	// To its end, so that the token goes over the same connection.
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

// offersNegotiate looks at every offer: a server may put others first, or several into one line.
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
