package yarn

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/providers"
)

// proxy is an HTTP proxy for all requests to a cluster. It forwards requests to http addresses. For
// https addresses it opens a tunnel (CONNECT), and TLS runs between us and the server.
type proxy struct {
	address
	login *basic // nil: the proxy needs no login
}

// maxStatus is how much of a proxy's status line is shown, in bytes.
const maxStatus = 64

// ProxyError reports that the proxy prevented a request to a server.
type ProxyError struct {
	Proxy string
	// Status is the beginning of the proxy's status line, such as "502 Bad Gateway"; empty: no
	// answer.
	Status string
	Err    error
}

func (e *ProxyError) Error() string {
	if e.Status != "" {
		return fmt.Sprintf("the proxy %s answers %q: see the settings %s, %s and %s", e.Proxy, e.Status, settingProxy, settingProxyUser, settingProxyPasswordFile)
	}
	return fmt.Sprintf("the proxy %s does not answer: %v: see the setting %s", e.Proxy, e.Err, settingProxy)
}

// Unwrap returns the cause, nil if there is none.
func (e *ProxyError) Unwrap() error { return e.Err }

// openProxy reads the password for the proxy; nil: there is no proxy. The error is a
// *providers.SettingError.
func openProxy(s settings, now func() time.Time) (*proxy, error) {
	if s.proxy == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	p := &proxy{address: *s.proxy}
	if s.proxyPasswordFile == "" {
		return p, nil
	}
	password, err := openSecret(settingProxyPasswordFile, s.proxyPasswordFile, wantPassword, maxPassword, now)
	p.login = &basic{user: s.proxyUser, password: password}
	return p, err
}

// use routes a transport through the proxy.
func (p *proxy) use(transport *http.Transport, at address) {
	dial := transport.DialContext
	reach := func(ctx context.Context, network string) (net.Conn, error) {
		conn, err := dial(ctx, network, p.dialAddress())
		if err != nil {
			err = &ProxyError{Proxy: p.String(), Err: err}
		}
		return conn, err
	}
	if at.url.Scheme == "http" {
		transport.Proxy = func(*http.Request) (*url.URL, error) {
			through := *p.url
			if p.login != nil {
				through.User = url.UserPassword(p.login.user, *p.login.password.Get())
			}
			return &through, nil
		}
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) { return reach(ctx, network) }
		return
	}
	transport.DialContext = func(ctx context.Context, network, target string) (net.Conn, error) {
		conn, err := reach(ctx, network)
		if err != nil {
			return nil, err
		}
		if err := p.tunnel(ctx, conn, target); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return conn, nil
	}
}

// tunnel asks the proxy for a connection to a host and port. The error is a *ProxyError.
func (p *proxy) tunnel(ctx context.Context, conn net.Conn, target string) error {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{"User-Agent": {"bursar"}}}
	if p.login != nil {
		request.Header.Set("Proxy-Authorization", "Basic "+p.login.sent())
	}
	err := request.Write(conn)
	var response *http.Response
	if err == nil {
		// Nothing follows the header before our TLS handshake, so the buffered reader reads nothing
		// too much.
		response, err = http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxHeader)), request)
	}
	switch {
	case ctx.Err() != nil:
		return &ProxyError{Proxy: p.String(), Err: ctx.Err()}
	case err != nil:
		return &ProxyError{Proxy: p.String(), Err: err}
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return &ProxyError{Proxy: p.String(), Status: spelling.Line(p.hide(response.Status), maxStatus)}
	}
	return nil
}

// hide covers proxies that repeat the request's header.
func (p *proxy) hide(text string) string {
	if p == nil || p.login == nil {
		return text
	}
	return p.login.hide(text)
}

// dialAddress returns host:port.
func (p *proxy) dialAddress() string {
	if _, _, found := cutPort(p.url.Host); found {
		return p.url.Host
	}
	return p.url.Host + ":80"
}

// checkProxy validates the settings of the proxy. The error is a *providers.SettingError.
func (s *settings) checkProxy(given map[string]string) error {
	text, is := given[settingProxy]
	s.proxyUser, s.proxyPasswordFile = given[settingProxyUser], given[settingProxyPasswordFile]
	for _, name := range []string{settingProxyUser, settingProxyPasswordFile} {
		if _, said := given[name]; said && !is {
			return &providers.SettingError{Setting: name, Value: given[name], Want: "a " + settingProxy + " that it is for"}
		}
	}
	switch {
	case !is:
		return nil
	case strings.Contains(text, "@"):
		return &providers.SettingError{
			Setting: settingProxy, Value: withoutUser(text),
			Want: "an address without user and password: they are settings, and the password stands in a file (" + settingProxyUser + ", " + settingProxyPasswordFile + ")",
		}
	case s.proxyUser == "" && s.proxyPasswordFile != "":
		return &providers.SettingError{Setting: settingProxyUser, Want: "the user whose password it is"}
	case s.proxyUser != "" && s.proxyPasswordFile == "":
		return &providers.SettingError{Setting: settingProxyPasswordFile, Want: "a file with the password of the user"}
	case strings.ContainsFunc(s.proxyUser, notInName):
		return &providers.SettingError{Setting: settingProxyUser, Value: s.proxyUser, Want: wantName}
	}
	at, wrong := parseAddress(text)
	if wrong != "" || at.url.Scheme != "http" {
		return &providers.SettingError{Setting: settingProxy, Value: text, Want: "the address of an HTTP proxy, such as http://proxy:3128"}
	}
	s.proxy = &at
	if s.proxyUser != "" && !at.loopback() && !s.insecure {
		return &providers.SettingError{Setting: settingProxy, Value: at.String(), Want: `a proxy on this machine, as everybody on the way can read its password; or insecure: "true"`}
	}
	return nil
}
