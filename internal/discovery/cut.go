package discovery

// What is shown of a text at most, in bytes: of a value that somebody else may have written, of an
// address (a host's name has 253 at most, RFC 1035), and of an error that may repeat either.
const (
	MaxShownValue   = 64
	MaxShownAddress = 300
	MaxShownError   = 1000
)

// Cut returns the beginning of a text that others may have written, of most bytes, and a sign
// that there was more. Otherwise anybody who can write into Consul's keys could fill the logs. It
// does not quote: %q does, or the log.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
