package yarn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/bursar/bursar/providers"
)

const realm = "EXAMPLE.COM"

// fakeKDC gives tickets to known clients, without pre-authentication.
type fakeKDC struct {
	listener net.Listener
	keys     *keytab.Keytab // of all principals
	mu       sync.Mutex     // guards the fields below
	logins   int
	services []string
	refuse   int32         // the error that replaces a ticket for a login
	hold     chan struct{} // nil: answer at once
}

// newKDC makes a KDC that knows the service HTTP/127.0.0.1 and the principal bursar.
func newKDC(t *testing.T) *fakeKDC {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &fakeKDC{listener: listener, keys: keytab.New()}
	for _, name := range []string{"krbtgt/" + realm, "HTTP/127.0.0.1", "bursar"} {
		if err := k.keys.AddEntry(name, realm, "password of "+name, time.Now().Add(-time.Hour), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
			t.Fatal(err)
		}
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { k.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	return k
}

func (k *fakeKDC) serve(conn net.Conn) {
	defer conn.Close()
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	request := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(conn, request); err != nil {
		return
	}
	answer, err := k.answer(request)
	if err != nil {
		answer = []byte(err.Error())
	}
	_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...))
}

func (k *fakeKDC) answer(request []byte) ([]byte, error) {
	k.mu.Lock()
	refuse, hold := k.refuse, k.hold
	k.mu.Unlock()
	if hold != nil {
		<-hold
	}
	var login messages.ASReq
	if login.Unmarshal(request) == nil {
		k.mu.Lock()
		k.logins++
		k.mu.Unlock()
		if refuse != 0 {
			return k.refusal(login.ReqBody, refuse)
		}
		key, version, err := k.keys.GetEncryptionKey(login.ReqBody.CName, realm, 0, etypeID.AES256_CTS_HMAC_SHA1_96)
		if err != nil {
			return k.refusal(login.ReqBody, errorcode.KDC_ERR_C_PRINCIPAL_UNKNOWN)
		}
		fields, err := k.ticket(login.ReqBody, login.ReqBody.CName, key, version, keyusage.AS_REP_ENCPART)
		if err != nil {
			return nil, err
		}
		fields.MsgType = msgtype.KRB_AS_REP
		return (&messages.ASRep{KDCRepFields: fields}).Marshal()
	}
	var wanted messages.TGSReq
	if err := wanted.Unmarshal(request); err != nil {
		return nil, err
	}
	var proof messages.APReq
	if err := proof.Unmarshal(wanted.PAData[0].PADataValue); err != nil {
		return nil, err
	}
	if err := proof.Ticket.DecryptEncPart(k.keys, nil); err != nil {
		return nil, err
	}
	service := wanted.ReqBody.SName.PrincipalNameString()
	k.mu.Lock()
	k.services = append(k.services, service)
	k.mu.Unlock()
	if _, _, err := k.keys.GetEncryptionKey(wanted.ReqBody.SName, realm, 0, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		return k.refusal(wanted.ReqBody, errorcode.KDC_ERR_S_PRINCIPAL_UNKNOWN)
	}
	of := proof.Ticket.DecryptedEncPart
	fields, err := k.ticket(wanted.ReqBody, of.CName, of.Key, 0, keyusage.TGS_REP_ENCPART_SESSION_KEY)
	if err != nil {
		return nil, err
	}
	fields.MsgType = msgtype.KRB_TGS_REP
	return (&messages.TGSRep{KDCRepFields: fields}).Marshal()
}

// ticket makes a ticket for a service, encrypted for the owner of key.
func (k *fakeKDC) ticket(body messages.KDCReqBody, client types.PrincipalName, key types.EncryptionKey, version, usage int) (messages.KDCRepFields, error) {
	var none messages.KDCRepFields
	begin := time.Now().UTC().Truncate(time.Second)
	end := begin.Add(time.Hour)
	flags := types.NewKrbFlags()
	ticket, session, err := messages.NewTicket(client, realm, body.SName, realm, flags, k.keys, etypeID.AES256_CTS_HMAC_SHA1_96, 1, begin, begin, end, end)
	if err != nil {
		return none, err
	}
	part := messages.EncKDCRepPart{
		Key: session, LastReqs: []messages.LastReq{}, Nonce: body.Nonce, Flags: flags, AuthTime: begin, StartTime: begin, EndTime: end, RenewTill: end,
		SRealm: realm, SName: body.SName,
	}
	plain, err := part.Marshal()
	if err != nil {
		return none, err
	}
	sealed, err := crypto.GetEncryptedData(plain, key, uint32(usage), version)
	if err != nil {
		return none, err
	}
	return messages.KDCRepFields{PVNO: 5, CRealm: realm, CName: client, Ticket: ticket, EncPart: sealed}, nil
}

func (k *fakeKDC) refusal(body messages.KDCReqBody, code int32) ([]byte, error) {
	refused := messages.NewKRBError(body.SName, realm, code, "")
	return refused.Marshal()
}

func (k *fakeKDC) set(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// conf writes a krb5.conf.
func (k *fakeKDC) conf(t *testing.T, dir string) string {
	t.Helper()
	return write(t, filepath.Join(dir, "krb5.conf"), fmt.Sprintf(`includedir /etc/krb5.conf.d/
[libdefaults]
 default_realm = %s
 dns_lookup_kdc = false
 default_tkt_enctypes = aes256-cts-hmac-sha1-96
 default_tgs_enctypes = aes256-cts-hmac-sha1-96
[realms]
 %s = {
  kdc = %s
 }
`, realm, realm, k.listener.Addr()))
}

// keytabOf writes a keytab with a key from a password.
func keytabOf(t *testing.T, path, principal, password string) string {
	t.Helper()
	keys := keytab.New()
	if err := keys.AddEntry(principal, realm, password, time.Now().Add(-time.Hour), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		t.Fatal(err)
	}
	content, err := keys.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return write(t, path, string(content))
}

// kerberized starts a ResourceManager that accepts the KDC's tickets, and may set cookies.
func kerberized(t *testing.T, k *fakeKDC) *fakeRM {
	t.Helper()
	rm := unstartedRM()
	rm.Config.Handler = spnego.SPNEGOKRB5Authenticate(rm.Config.Handler, k.keys)
	rm.Start()
	t.Cleanup(rm.Close)
	return rm
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestKerberosWithAKeytab(t *testing.T) {
	clock, dir, k := newClock(), t.TempDir(), newKDC(t)
	rm := kerberized(t, k)
	keys := keytabOf(t, filepath.Join(dir, "bursar.keytab"), "bursar", "password of bursar")
	settings := []string{"auth", "kerberos", "principal", "bursar", "keytab", keys, "krb5Conf", k.conf(t, dir)}
	p := openAt(t, kind{now: clock.Now}, []*fakeRM{rm}, settings...)
	for range 3 {
		snapshot(t, p)
	}
	if k.logins != 1 || strings.Join(k.services, " ") != "HTTP/127.0.0.1" { // the ticket is cached
		t.Errorf("%d logins, tickets for %q", k.logins, k.services)
	}

	// The keys change: first in the KDC, then in the file.
	k.keys.Entries = k.keys.Entries[:2]
	if err := k.keys.AddEntry("bursar", realm, "the next password", time.Now(), 2, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		t.Fatal(err)
	}
	keys2 := keytab.New()
	if err := keys2.AddEntry("bursar", realm, "the next password", time.Now(), 2, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		t.Fatal(err)
	}
	content, err := keys2.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	write(t, keys, string(content))
	clock.advance(2 * time.Second)
	snapshot(t, p)
	if k.logins != 2 {
		t.Errorf("%d logins after the keytab has changed", k.logins)
	}
	// An invalid keytab leaves the earlier one in use.
	write(t, keys, "nonsense")
	clock.advance(2 * time.Second)
	snapshot(t, p)
}

func TestKerberosErrorsOfARealExchange(t *testing.T) {
	dir, k := t.TempDir(), newKDC(t)
	rm := kerberized(t, k)
	conf := k.conf(t, dir)
	good := keytabOf(t, filepath.Join(dir, "good"), "bursar", "password of bursar")
	wrong := keytabOf(t, filepath.Join(dir, "wrong"), "bursar", "another password")
	stranger := keytabOf(t, filepath.Join(dir, "stranger"), "mallory", "x")
	nobody := write(t, filepath.Join(dir, "nobody.conf"), strings.Replace(string(readFile(t, conf)), k.listener.Addr().String(), "127.0.0.1:1", 1))
	other := write(t, filepath.Join(dir, "other.conf"), strings.ReplaceAll(string(readFile(t, conf)), realm+" = {", "OTHER = {"))
	for name, c := range map[string]struct {
		keys, principal, conf, service string
		refuse                         int32
		setting, want                  string
	}{
		"another key":                 {wrong, "bursar", conf, "HTTP/_HOST", 0, "keytab", "no key that fits the principal"},
		"not known":                   {stranger, "mallory", conf, "HTTP/_HOST", 0, "principal", "does not know the principal"},
		"no such service":             {good, "bursar", conf, "HTTP/rm9", 0, "servicePrincipal", "does not know the service HTTP/rm9"},
		"nobody answers":              {good, "bursar", nobody, "HTTP/_HOST", 0, "krb5Conf", "no KDC answers"},
		"no KDC of the realm":         {good, "bursar", other, "HTTP/_HOST", 0, "krb5Conf", "no KDC"},
		"the clock":                   {good, "bursar", conf, "HTTP/_HOST", errorcode.KRB_AP_ERR_SKEW, "", "clocks"},
		"locked":                      {good, "bursar", conf, "HTTP/_HOST", errorcode.KDC_ERR_CLIENT_REVOKED, "principal", "locked"},
		"a key that is not his again": {good, "bursar", conf, "HTTP/_HOST", errorcode.KDC_ERR_ETYPE_NOSUPP, "keytab", "of a type"},
	} {
		k.set(func() { k.refuse = c.refuse })
		p := openAt(t, kind{}, []*fakeRM{rm}, "auth", "kerberos", "principal", c.principal, "keytab", c.keys, "krb5Conf", c.conf, "servicePrincipal", c.service)
		_, err := p.Snapshot(t.Context())
		wantUnavailable(t, err, false)
		got, ok := errors.AsType[*KerberosError](err)
		if !ok || got.Setting != c.setting || !strings.Contains(got.Advice, c.want) || troubles(t, err)[rm.URL].Trouble != NotAllowed || strings.Contains(err.Error(), "password of") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKerberosFilesThatCannotBeUsed(t *testing.T) {
	dir, k := t.TempDir(), newKDC(t)
	conf := k.conf(t, dir)
	keys := keytabOf(t, filepath.Join(dir, "keytab"), "bursar", "x")
	for name, c := range map[string]struct {
		settings      map[string]string
		setting, want string
	}{
		"another principal":      {map[string]string{"principal": "alice", "keytab": keys}, "keytab", `has no key of alice@EXAMPLE.COM, but of ["bursar@EXAMPLE.COM"]`},
		"another realm":          {map[string]string{"principal": "bursar@OTHER", "keytab": keys}, "keytab", "has no key of bursar@OTHER"},
		"no keytab":              {map[string]string{"principal": "bursar", "keytab": conf}, "keytab", "is no keytab"},
		"a keytab that ends":     {map[string]string{"principal": "bursar", "keytab": write(t, filepath.Join(dir, "half"), string(readFile(t, keys)[:20]))}, "keytab", "is no keytab"},
		"none there":             {map[string]string{"principal": "bursar", "keytab": dir + "/none"}, "keytab", "no such file"},
		"no krb5.conf":           {map[string]string{"principal": "bursar", "keytab": keys, "krb5Conf": dir + "/none"}, "krb5Conf", "no such file"},
		"no realm at all":        {map[string]string{"principal": "bursar", "keytab": keys, "krb5Conf": write(t, filepath.Join(dir, "empty.conf"), "[libdefaults]\n")}, "krb5Conf", "has no default_realm"},
		"a krb5.conf of nothing": {map[string]string{"principal": "bursar", "keytab": keys, "krb5Conf": write(t, filepath.Join(dir, "bad.conf"), "[libdefaults]\nclockskew = often\n")}, "krb5Conf", "cannot be read"},
	} {
		settings := map[string]string{"addresses": "http://127.0.0.1:1", "auth": "kerberos", "krb5Conf": conf}
		maps.Copy(settings, c.settings)
		_, err := Kind().Open("prod", settings)
		if wrong, ok := errors.AsType[*providers.SettingError](err); !ok || wrong.Setting != c.setting || !strings.Contains(wrong.Want, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A slow KDC delays callers only until their own deadline, and its late answer serves the next
// caller.
func TestKDCThatTakesItsTime(t *testing.T) {
	dir, k := t.TempDir(), newKDC(t)
	keys := keytabOf(t, filepath.Join(dir, "keytab"), "bursar", "password of bursar")
	s, err := parseSettings(map[string]string{"addresses": "http://127.0.0.1:1", "auth": "kerberos", "principal": "bursar", "keytab": keys, "krb5Conf": k.conf(t, dir)})
	if err != nil {
		t.Fatal(err)
	}
	identity, err := openAuthenticator(s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	tickets, ok := identity.(tokenMaker)
	if !ok {
		t.Fatalf("a %T", identity)
	}
	hold := make(chan struct{})
	k.set(func() { k.hold = hold })
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tickets.token(canceled, "HTTP/127.0.0.1"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(hold)
	var all sync.WaitGroup
	seen := sync.Map{}
	for range 8 {
		all.Go(func() {
			token, err := tickets.token(t.Context(), "HTTP/127.0.0.1")
			if _, twice := seen.LoadOrStore(token, true); err != nil || token == "" || twice {
				t.Errorf("%q, %v, twice %v", token, err, twice)
			}
		})
	}
	all.Wait()
	identity.close()
	identity.close()
	if _, err := tickets.token(t.Context(), "HTTP/127.0.0.1"); !errors.Is(err, errClosed) {
		t.Errorf("after the end: %v", err)
	}
	if k.logins != 1 {
		t.Errorf("%d logins", k.logins)
	}
}

func TestServiceOfEachHost(t *testing.T) {
	for pattern, want := range map[string]string{"HTTP/_HOST": "HTTP/rm1.example.com", "HTTP/all": "HTTP/all", "http/x._HOST": "http/x.rm1.example.com"} {
		at, _ := parseAddress("https://RM1.example.com:8090")
		got, ok := (&kerberos{service: pattern}).transport(http.DefaultTransport, at).(negotiate)
		if !ok || got.service != want {
			t.Errorf("%s: %s, want %s", pattern, got.service, want)
		}
	}
}

func FuzzKeytab(f *testing.F) {
	keys := keytab.New()
	if err := keys.AddEntry("bursar", realm, "x", time.Unix(0, 0), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		f.Fatal(err)
	}
	content, err := keys.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add(content[:20])
	f.Fuzz(func(t *testing.T, content []byte) {
		if keys, err := parseKeytab(content); err == nil && keys == nil {
			t.Error("neither keys nor an error")
		}
	})
}
