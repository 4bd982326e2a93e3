package yarn

import (
	"errors"
	"strings"
	"testing"
)

// The classification of the library's own error texts.
func TestKerberosErrorSaysWhatIsWrong(t *testing.T) {
	const kdc = "could not acquire client credential: could not get valid TGT for client's realm: [Root cause: KDC_Error] KDC_Error: AS Exchange Error: kerberos error response from KDC: KRB Error: "
	for text, want := range map[string]struct{ setting, advice string }{
		kdc + "(6) KDC_ERR_C_PRINCIPAL_UNKNOWN Client not found in Kerberos database":                     {"principal", "does not know the principal"},
		kdc + "(18) KDC_ERR_CLIENT_REVOKED Clients credentials have been revoked":                         {"principal", "locked"},
		kdc + "(24) KDC_ERR_PREAUTH_FAILED Pre-authentication information was invalid":                    {"keytab", "make a new keytab"},
		kdc + "(14) KDC_ERR_ETYPE_NOSUPP KDC has no support for encryption type":                          {"keytab", "of a type"},
		kdc + "(37) KRB_AP_ERR_SKEW Clock skew too great":                                                 {"", "clocks"},
		kdc + "(68) KDC_ERR_WRONG_REALM Reserved for future use":                                          {"principal", "another realm"},
		kdc + "(60) KRB_ERR_GENERIC Generic error (description in e-text)":                                {"", "no ticket"},
		"could not initialize context: KRB Error: (7) KDC_ERR_S_PRINCIPAL_UNKNOWN Server not found":       {"servicePrincipal", "the service HTTP/rm1"},
		"[Root cause: KRBMessage_Handling_Error] AS_REP is not valid or client password/keytab incorrect": {"keytab", "no key that fits"},
		"matching key not found in keytab. Looking for [bursar] realm: EXAMPLE.COM kvno: 0 etype: 18":     {"keytab", "no key that fits"},
		"KRBMsgError: clock skew with KDC too large. Greater than 300.000000 seconds":                     {"", "clocks"},
		"no KDCs defined in configuration for realm EXAMPLE.COM":                                          {"krb5Conf", "[realms]"},
		"communication error with KDC via TCP: error sending to a KDC: dial tcp: connection refused":      {"krb5Conf", "no KDC answers"},
	} {
		cause := errors.New(text)
		err := kerberosError(cause, "HTTP/rm1")
		got, ok := errors.AsType[*KerberosError](err)
		if !ok || got.Setting != want.setting || !strings.Contains(got.Advice, want.advice) || !errors.Is(err, cause) {
			t.Errorf("%s:\n%v\nwant %q and %q", text, err, want.setting, want.advice)
		}
		if want.setting != "" && !strings.Contains(err.Error(), "(setting "+want.setting+")") {
			t.Errorf("%v", err)
		}
	}
}
