package yarn

import (
	"regexp"
	"strconv"
	"strings"
)

// KerberosError says why there is no ticket, and what to look at.
type KerberosError struct {
	// Setting is the one that is wrong, or names the file that is: keytab, principal, krb5Conf (its KDCs), servicePrincipal; empty: this machine's
	// clock, or none that is known.
	Setting string
	// Advice is what to do.
	Advice string
	Err    error
}

func (e *KerberosError) Error() string {
	text := "Kerberos: " + e.Advice
	if e.Setting != "" {
		text += " (setting " + e.Setting + ")"
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns what the library or the KDC said.
func (e *KerberosError) Unwrap() error { return e.Err }

// kdcCode finds the number of a KDC's error (RFC 4120, 7.5.9) in what the library says, which keeps no types.
var kdcCode = regexp.MustCompile(`KRB Error: \((\d+)\)`)

// kerberosError finds out what is wrong. service is the principal that a ticket was wanted for.
func kerberosError(err error, service string) error {
	made := &KerberosError{Err: err}
	text := err.Error()
	code := 0
	if found := kdcCode.FindStringSubmatch(text); found != nil {
		code, _ = strconv.Atoi(found[1])
	}
	contains := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	switch {
	case code == 6: // KDC_ERR_C_PRINCIPAL_UNKNOWN
		made.Setting, made.Advice = settingPrincipal, "the KDC does not know the principal"
	case code == 7: // KDC_ERR_S_PRINCIPAL_UNKNOWN
		made.Setting, made.Advice = settingServicePrincipal, "the KDC does not know the service "+service
	case code == 18 || code == 1 || code == 12: // KDC_ERR_CLIENT_REVOKED, KDC_ERR_NAME_EXP, KDC_ERR_POLICY
		made.Setting, made.Advice = settingPrincipal, "the KDC does not let the principal in: it is locked or has expired"
	case code == 68: // KDC_ERR_WRONG_REALM
		made.Setting, made.Advice = settingPrincipal, "the principal is of another realm"
	case code == 24 || code == 31 || code == 23: // KDC_ERR_PREAUTH_FAILED, KRB_AP_ERR_BAD_INTEGRITY, KDC_ERR_KEY_EXPIRED
		made.Setting, made.Advice = settingKeytab, "the key in the keytab is not that of the principal any longer: make the keytab anew"
	case code == 14: // KDC_ERR_ETYPE_NOSUPP
		made.Setting, made.Advice = settingKeytab, "the keytab has no key of a type that the KDC takes"
	case code == 37 || contains("clock skew", "Clock skew"): // KRB_AP_ERR_SKEW
		made.Advice = "the clocks of this machine and of the KDC differ: set them by a time server"
	case contains("keytab incorrect", "matching key not found", "error getting key from credentials"):
		made.Setting, made.Advice = settingKeytab, "the keytab has no key that fits the principal"
	case contains("KDCs", "KDC SRV", "SRV"):
		made.Setting, made.Advice = settingKrb5Conf, "no KDC of the realm is known: name it under [realms]"
	case code == 0 && contains("communication error with KDC", "sending", "Networking_Error", "resolving KDC"):
		made.Setting, made.Advice = settingKrb5Conf, "no KDC answers"
	default:
		made.Advice = "no ticket"
	}
	return made
}
