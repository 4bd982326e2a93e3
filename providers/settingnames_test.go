package providers

import (
	"strings"
	"testing"
)

func TestNamesOfSettingsAreChecked(t *testing.T) {
	known := []string{"addresses", "interval"}
	for _, test := range []struct {
		given map[string]string
		want  string
	}{
		{nil, ""},
		{map[string]string{"addresses": "a", "interval": "5s"}, ""},
		{map[string]string{"addresses": ""}, `settings[addresses]: "": want a value, or no such setting`},
		{map[string]string{"adresses": "secret"}, `settings[adresses]: "***": want a setting that there is; did you mean addresses?`},
		{map[string]string{"zz": "secret"}, `settings[zz]: "***": want a setting that there is: addresses, interval`},
	} {
		if err := CheckNames(test.given, known); test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want) {
			t.Errorf("%v: %v, want %q", test.given, err, test.want)
		}
	}
}

// An unrelated word does not match a setting by accident.
func TestNearest(t *testing.T) {
	names := []string{"addresses", "keytab", "krb5Conf", "ca", "certificate", "maxBytes", "timeout"}
	for given, want := range map[string]string{
		"adresses": "addresses", "address": "addresses", "addresse": "addresses", "Ca": "ca", "cert": "certificate", "krb5": "krb5Conf", "max_bytes": "maxBytes", "time-out": "timeout",
		"keytabs": "keytab", "x": "", "kerberos": "", "zzzzzz": "", "": "", strings.Repeat("a", 1000): "",
	} {
		if got := nearest(given, names); got != want {
			t.Errorf("%.20q: %q, want %q", given, got, want)
		}
	}
}
