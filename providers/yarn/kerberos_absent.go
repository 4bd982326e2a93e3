//go:build !kerberos

package yarn

import (
	"time"

	"github.com/bursar/bursar/providers"
)

// openKerberos refuses: this program was built without the tag kerberos, which needs the libraries of Kerberos.
func openKerberos(settings, func() time.Time) (authenticator, error) {
	return nil, &providers.SettingError{Setting: settingAuth, Value: string(authKerberos), Want: "a program that was built with Kerberos (tag kerberos)"}
}
