package yarn

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/bursar/bursar/providers"
)

// longSecret is how many bytes of a secret must stand together to be taken out of a text. Texts of
// servers are cut, and what was cut may end within a secret.
const longSecret = 12

// hideSecrets takes secrets out of a text: as they are, as Go quotes them and as they stand in an
// address. Of a long one its beginning is enough.
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
