package client

import (
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// target is the address of a server.
type target struct {
	// baseURL is the base URL for the generated clients.
	baseURL string
	// socket is the path of a Unix socket; empty for TCP.
	socket string
	// hasScheme is set if the name includes the scheme.
	hasScheme bool
}

// TargetError refuses the name of a server.
type TargetError struct {
	Target, Reason string
}

func (e *TargetError) Error() string {
	return fmt.Sprintf("server %q: %s: want a socket such as /run/bursar/agent.sock, host:port, or http(s)://host:port", e.Target, e.Reason)
}

const maxPort = 65535

// parseTarget parses the name of a server: a path or "unix:PATH" is a socket, everything else an
// address. An address without a scheme is https if secure is set. The error is a *TargetError.
func parseTarget(text string, secure bool) (target, error) {
	if path, isSocket := socketPath(text); isSocket {
		if path == "" {
			return target{}, &TargetError{text, "no path"}
		}
		// The host in the URL is only for the Host header.
		return target{baseURL: "http://localhost", socket: path}, nil
	}
	address := text
	hasScheme := strings.Contains(address, "://")
	if !hasScheme {
		scheme := "http://"
		if secure {
			scheme = "https://"
		}
		address = scheme + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return target{}, &TargetError{text, "not an address"}
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return target{}, &TargetError{text, "unknown scheme " + u.Scheme}
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return target{}, &TargetError{text, "more than an address"}
	}
	// https has a default port; our servers do not use the default port of http.
	if _, port, err := net.SplitHostPort(u.Host); u.Scheme == "http" && (err != nil || port == "") {
		return target{}, &TargetError{text, "no port"}
	}
	if n, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || n < 1 || n > maxPort) {
		return target{}, &TargetError{text, "no such port"}
	}
	if u.Hostname() == "" {
		return target{}, &TargetError{text, "no host"}
	}
	return target{baseURL: strings.TrimSuffix(u.String(), "/"), hasScheme: hasScheme}, nil
}

// checkSocket refuses a path to a file that is not a socket. The file may be missing: its server
// may be restarting.
func (t target) checkSocket(text string) error {
	if t.socket == "" {
		return nil
	}
	if info, err := os.Stat(t.socket); err == nil && info.Mode().Type() != fs.ModeSocket {
		return &TargetError{text, "no socket, but a file or a folder"}
	}
	return nil
}

func socketPath(text string) (path string, isSocket bool) {
	if rest, found := strings.CutPrefix(text, "unix:"); found {
		// other programs write unix:///run/x and unix://run/x
		return strings.TrimPrefix(rest, "//"), true
	}
	if strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") {
		return text, true
	}
	return "", false
}
