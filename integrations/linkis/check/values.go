package check

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The values that the adapter takes (Settings.java). With another one LinkisManager does not start.
var (
	bursarTime = regexp.MustCompile(`^([0-9]{1,9})(ms|s|m|h|d)$`)
	// userInfo may hold a password.
	userInfo = regexp.MustCompile(`//[^/,]*@`)
	hostID   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:-]{0,252}$`)
)

const day = 24 * time.Hour

// times are the settings that are times, with their bounds.
func times() map[string][2]time.Duration {
	return map[string][2]time.Duration{
		"wait.max": {0, 30 * time.Minute}, "reservation.ttl": {time.Second, day},
		"projector.interval": {200 * time.Millisecond, 5 * time.Minute}, "quota.interval": {time.Second, time.Hour},
	}
}

// ofValues says which values of the adapter's settings are refused.
func ofValues(p Properties) []Finding {
	var findings []Finding
	refuse := func(name, want string) {
		findings = append(findings, Finding{
			Area: "setting", Subject: bursarPrefix + name, Now: shown(userInfo.ReplaceAllString(p[bursarPrefix+name], "//…@")), Bursar: "LinkisManager does not start: want " + want, Attention: true,
		})
	}
	for name, bounds := range times() {
		text := strings.TrimSpace(p[bursarPrefix+name])
		if d, ok := bursarDuration(text); text != "" && (!ok || d < bounds[0] || d > bounds[1]) {
			refuse(name, fmt.Sprintf("a time such as 500ms, 10s, 5m or 1h, from %v to %v", bounds[0], bounds[1]))
		}
	}
	if _, ok := millisOf(p); !ok {
		refuse("cpu.millis.per.core", "1 to 1000000")
	}
	for _, name := range []string{"quota.import", "launch"} {
		if text := strings.TrimSpace(p[bursarPrefix+name]); text != "" && text != "true" && text != "false" {
			refuse(name, "true or false")
		}
	}
	for _, name := range []string{"token.file", "tls.ca"} {
		if path := strings.TrimSpace(p[bursarPrefix+name]); path != "" && !filepath.IsAbs(path) {
			refuse(name, "the absolute path of a file that LinkisManager's account can read")
		}
	}
	if want := wrongURL(p[bursarPrefix+"url"], p[bursarPrefix+"token.file"] != ""); want != "" {
		refuse("url", want)
	}
	if !isHostMap(p[bursarPrefix+"host.map"]) {
		refuse("host.map", "pairs such as ecm-1=host-a,10.0.0.7:9102=host-b")
	}
	return findings
}

func isHostMap(text string) bool {
	for pair := range strings.SplitSeq(text, ",") {
		from, to, ok := strings.Cut(pair, "=")
		if strings.TrimSpace(pair) != "" && (!ok || strings.TrimSpace(from) == "" || !hostID.MatchString(strings.TrimSpace(to))) {
			return false
		}
	}
	return true
}

// wrongURL names the right form of the coordinators' addresses; empty: they can be used.
func wrongURL(addresses string, withToken bool) (want string) {
	for text := range strings.SplitSeq(addresses, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		u, err := url.Parse(text)
		base := err == nil && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" && (u.Path == "" || u.Path == "/")
		switch {
		case !base || u.Scheme != "http" && u.Scheme != "https":
			return "http://HOST:PORT or https://HOST:PORT, separated by commas"
		case u.Scheme == "http" && withToken && !loopback(u.Hostname()):
			return "https:// and TLS at the coordinator: the token would be sent in clear"
		}
	}
	return ""
}

// loopback reports whether a host is this machine for good: its name stands for no other tomorrow.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func bursarDuration(text string) (time.Duration, bool) {
	m := bursarTime.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	unit := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": day}[m[2]]
	if err != nil || n > int64(100*day/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// defaultMillis is the size of a core of Linkis, in thousandths of a core, without the setting.
const defaultMillis = 1000

// millisPerCore is the size of a core of Linkis, in thousandths of a core.
func millisPerCore(p Properties) int64 {
	millis, _ := millisOf(p)
	return millis
}

// millisOf is millisPerCore, and whether the setting can be used.
func millisOf(p Properties) (millis int64, ok bool) {
	text := strings.TrimSpace(p[bursarPrefix+"cpu.millis.per.core"])
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > 1_000_000 {
		return defaultMillis, text == ""
	}
	return n, true
}
