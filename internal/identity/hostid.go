package identity

import "strings"

// longestHostID is the length of the longest id of a host, in bytes.
const longestHostID = 253

// IsHostID reports whether a text is a valid id of a host in the contract: a letter or digit, then
// up to 252 letters, digits, and . _ : -. It runs for each heartbeat, so it uses no regular
// expression.
func IsHostID(id string) bool {
	if id == "" || len(id) > longestHostID || strings.IndexByte("._:-", id[0]) >= 0 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("._:-", c) < 0 {
			return false
		}
	}
	return true
}
