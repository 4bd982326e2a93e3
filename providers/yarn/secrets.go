package yarn

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/bursar/bursar/providers"
)

// longSecret is the number of consecutive bytes of a secret that are hidden. Servers truncate
// texts, so a text may end within a secret.
const longSecret = 12

// hideSecrets hides secrets in a text: in plain form, as Go quotes them, and as they appear in a
// URL. For a long secret, its beginning is enough.
func hideSecrets(text string, secrets ...string) string {
	for _, secret := range secrets {
		quoted := strconv.Quote(secret)
		for _, form := range []string{secret, quoted[1 : len(quoted)-1], url.QueryEscape(secret), url.PathEscape(secret)} {
			text = hideForm(text, form)
		}
	}
	return text
}

func hideForm(text, secret string) string {
	var b strings.Builder
	for secret != "" {
		before, _, found := strings.Cut(text, secret[:min(len(secret), longSecret)])
		if !found {
			break
		}
		b.WriteString(before + providers.Hidden)
		text = text[len(before):]
		n := 0
		for n < min(len(text), len(secret)) && text[n] == secret[n] {
			n++
		}
		text = text[n:]
	}
	return b.String() + text
}
