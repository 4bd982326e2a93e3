package yarn

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bursar/bursar/providers"
)

// maxAddresses bounds the ResourceManagers of one cluster: when one fails, all of them are asked at
// once.
const maxAddresses = 16

// hostPattern stands for the host of an address, as in Hadoop's own configuration.
const hostPattern = "_HOST"

// address is the address of one ResourceManager, or of a gateway in front of several.
type address struct {
	url *url.URL // only scheme and host; immutable
}

func (a address) String() string { return a.url.Scheme + "://" + a.url.Host }

// host returns the host name or IP address without the port.
func (a address) host() string { return a.url.Hostname() }

// loopback reports whether traffic to the address stays on this machine.
func (a address) loopback() bool {
	ip := net.ParseIP(a.host())
	return a.host() == "localhost" || ip != nil && ip.IsLoopback()
}

// parseAddresses parses a list, separated by commas or blanks.
func parseAddresses(setting, text string) ([]address, error) {
	if strings.Contains(text, "@") { // first: later errors may repeat a part of it
		return nil, &providers.SettingError{
			Setting: setting, Value: withoutUser(text),
			Want: "addresses without user and password: they are settings, and the password stands in a file (auth: basic, user, passwordFile)",
		}
	}
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' })
	if len(parts) == 0 || len(parts) > maxAddresses {
		return nil, &providers.SettingError{Setting: setting, Value: text, Want: fmt.Sprintf("1 to %d addresses, such as http://rm1:8088,http://rm2:8088", maxAddresses)}
	}
	var list []address
	for _, part := range parts {
		a, want := parseAddress(part)
		if want == "" && slices.ContainsFunc(list, func(b address) bool { return a.String() == b.String() }) {
			want = "no address twice"
		}
		if want != "" {
			return nil, &providers.SettingError{Setting: setting, Value: part, Want: want}
		}
		list = append(list, a)
	}
	return list, nil
}

// parseAddress parses one address. want describes a valid address if the text is none.
func parseAddress(text string) (a address, want string) {
	const form = "an address such as http://rm1:8088 or https://rm1:8090"
	parsed, err := url.Parse(text)
	switch {
	case err != nil || !strings.Contains(text, "://"):
		return a, form
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return a, form
	case parsed.Hostname() == "" || strings.Contains(parsed.Host, "%") || strings.ContainsFunc(parsed.Host, func(r rune) bool { return r <= ' ' || r > '~' }):
		return a, form
	case parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "" || strings.Contains(text, "#"):
		return a, "an address without a query"
	case strings.Trim(parsed.Path, "/") != "":
		return a, "an address without a path: " + settingBasePath + " is for that"
	}
	if _, port, found := cutPort(parsed.Host); found {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return a, "a port from 1 to 65535"
		}
	}
	return address{url: &url.URL{Scheme: parsed.Scheme, Host: strings.ToLower(parsed.Host)}}, ""
}

// cutPort splits host and port, if there is a port. An IPv6 address has brackets.
func cutPort(text string) (host, port string, found bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 || strings.LastIndexByte(text, ']') > i {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

// withoutUser replaces the part of an address that may be a password.
func withoutUser(text string) string {
	i := strings.LastIndexByte(text, '@')
	if i < 0 {
		return text
	}
	scheme := ""
	if s, _, found := strings.Cut(text, "://"); found && len(s) <= len("https") {
		scheme = s + "://"
	}
	return scheme + providers.Hidden + text[i:]
}

// parseBasePath parses the path prefix of the REST interface.
func parseBasePath(text string) (string, error) {
	if text == "" {
		return defaultBasePath, nil
	}
	path := strings.TrimRight(text, "/")
	valid := strings.HasPrefix(path, "/") && !strings.ContainsFunc(path, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`?#%\"@;`, r)
	})
	for _, part := range strings.Split(path, "/")[1:] {
		valid = valid && part != "" && part != "." && part != ".."
	}
	if !valid {
		return "", &providers.SettingError{Setting: settingBasePath, Value: text, Want: "a path such as /ws/v1/cluster or /gateway/default/resourcemanager/v1/cluster"}
	}
	return path, nil
}
