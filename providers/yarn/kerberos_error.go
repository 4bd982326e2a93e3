package yarn

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// KerberosError reports why there is no ticket, and what an operator should check.
type KerberosError struct {
	// Setting is the wrong setting, or the setting with the wrong file: keytab, principal, krb5Conf
	// (its KDCs), servicePrincipal. Empty: this machine's clock is wrong, or the cause is unknown.
	Setting string
	// Advice is the likely cause or remedy.
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

// Unwrap returns the error of the library or the KDC.
func (e *KerberosError) Unwrap() error { return e.Err }

// kdcCode finds the number of a KDC error (RFC 4120, 7.5.9) in the text of the library's error,
// which has no types.
var kdcCode = regexp.MustCompile(`KRB Error: \((\d+)\)`)

// kerberosError classifies an error. service is the principal that the ticket was for.
func kerberosError(err error, service string) error {
	code := 0
	if found := kdcCode.FindStringSubmatch(err.Error()); found != nil {
		code, _ = strconv.Atoi(found[1])
	}
	made := saidByKDC(code, service)
	if code == 0 {
		made = saidByLibrary(err.Error())
	}
	made.Err = err
	return &made
}

// saidByKDC classifies the number of a KDC error.
func saidByKDC(code int, service string) KerberosError {
	switch code {
	case 6: // KDC_ERR_C_PRINCIPAL_UNKNOWN
		return KerberosError{Setting: settingPrincipal, Advice: "the KDC does not know the principal"}
	case 7: // KDC_ERR_S_PRINCIPAL_UNKNOWN
		return KerberosError{Setting: settingServicePrincipal, Advice: "the KDC does not know the service " + service}
	case 1, 12, 18: // KDC_ERR_NAME_EXP, KDC_ERR_POLICY, KDC_ERR_CLIENT_REVOKED
		return KerberosError{Setting: settingPrincipal, Advice: "the KDC does not let the principal in: it is locked or has expired"}
	case 68: // KDC_ERR_WRONG_REALM
		return KerberosError{Setting: settingPrincipal, Advice: "the principal is of another realm"}
	case 23, 24, 31: // KDC_ERR_KEY_EXPIRED, KDC_ERR_PREAUTH_FAILED, KRB_AP_ERR_BAD_INTEGRITY
		return KerberosError{Setting: settingKeytab, Advice: "the key in the keytab is not that of the principal any longer: make a new keytab"}
	case 14: // KDC_ERR_ETYPE_NOSUPP
		return KerberosError{Setting: settingKeytab, Advice: "the keytab has no key of a type that the KDC takes"}
	case 37: // KRB_AP_ERR_SKEW
		return clocksDiffer()
	}
	return KerberosError{Advice: "no ticket"}
}

func clocksDiffer() KerberosError {
	return KerberosError{Advice: "the clocks of this machine and of the KDC differ: set them by a time server"}
}

// saidByLibrary classifies the library's own errors.
func saidByLibrary(text string) KerberosError {
	contains := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	switch {
	case contains("clock skew"):
		return clocksDiffer()
	case contains("keytab incorrect", "matching key not found", "error getting key from credentials"):
		return KerberosError{Setting: settingKeytab, Advice: "the keytab has no key that fits the principal"}
	case contains("KDCs", "SRV"):
		return KerberosError{Setting: settingKrb5Conf, Advice: "no KDC of the realm is known: name it under [realms]"}
	case contains("communication error with KDC", "Networking_Error"):
		return KerberosError{Setting: settingKrb5Conf, Advice: "no KDC answers"}
	}
	return KerberosError{Advice: "no ticket"}
}
