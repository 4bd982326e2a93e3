package discovery

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// URLError rejects a coordinator's address.
type URLError struct {
	// URL is the given value, without a password.
	URL string
	// Want describes a valid value.
	Want string
}

func (e *URLError) Error() string {
	return fmt.Sprintf("coordinator %q: want %s", Cut(e.URL, MaxShownAddress), e.Want)
}

// maxHost is RFC 1035's limit for a name without the final dot.
const maxHost = 253

// ParseURL returns a coordinator's base URL in canonical form: http or https, host, port, no
// trailing slash. The error is a *URLError.
func ParseURL(text string) (string, error) {
	wrong := func(want string) (string, error) {
		return "", &URLError{URL: text, Want: want}
	}
	// keeps a password out of the log, even if url.Parse fails
	if before, _, found := strings.Cut(text, "@"); found {
		text = "…" + text[len(before):]
		return wrong("a URL without a user: credentials are configured on their own")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return wrong("a URL such as https://bursar-1.example.com:7070")
	case u.Scheme != "http" && u.Scheme != "https":
		return wrong("a URL that begins with http:// or https://")
	case u.Hostname() == "":
		return wrong("a URL with a host, such as https://bursar-1.example.com:7070")
	case len(u.Hostname()) > maxHost:
		return wrong("a URL with a host's name of at most 253 characters")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return wrong("a URL without a path, a query or a fragment")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return wrong("a port between 1 and 65535")
		}
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), nil
}
