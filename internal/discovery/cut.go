package discovery

// Limits of displayed texts, in bytes: for a value that anybody may have written, for an address (a
// host name has at most 253, RFC 1035), and for an error, which may repeat either.
const (
	MaxShownValue   = 64
	MaxShownAddress = 300
	MaxShownError   = 1000
)

// Cut truncates a text of unknown origin to most bytes and marks the truncation. Otherwise anybody
// who can write to Consul's keys could fill the logs. It does not quote; use %q or the log for
// that.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
