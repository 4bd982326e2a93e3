package yarn

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// authentication is how a provider authenticates.
type authentication string

const (
	authNone     authentication = "none"     // no identity
	authSimple   authentication = "simple"   // an unchecked user name, in the query
	authBasic    authentication = "basic"    // a user name and a password, as for Knox
	authBearer   authentication = "bearer"   // a token, as for Knox and CDP
	authKerberos authentication = "kerberos" // SPNEGO with a keytab
)

const (
	defaultBasePath = "/ws/v1/cluster"
	defaultKrb5Conf = "/etc/krb5.conf"
	// defaultMaxBytes is 18 times the answer for 500 queues of Hadoop 3.4.
	defaultMaxBytes = 64 << 20
	leastMaxBytes   = 64 << 10
	mostMaxBytes    = 4 << 30
)

// settings holds the parsed settings of a cluster.
type settings struct {
	pace      providers.Pace
	addresses []address // empty: read from site
	site      string
	basePath  string

	auth                        authentication
	user, passwordFile          string
	tokenFile                   string
	principal, keytab, krb5Conf string
	// servicePrincipal may contain _HOST, which stands for the host of the requested address.
	servicePrincipal string

	ca, certificate, key string

	proxy                        *address // nil: no proxy
	proxyUser, proxyPasswordFile string

	// maxBytes bounds one answer; requests is the limit per minute.
	maxBytes int64
	requests int
	// insecure allows a password or a token over plain http.
	insecure bool

	terms  providers.Terms
	assume Assumptions
}

// parseSettings parses settings without opening a file. The error is a *providers.SettingError.
func parseSettings(given map[string]string) (settings, error) {
	if err := providers.CheckNames(given, settingNames()); err != nil {
		return settings{}, err
	}
	pace, err := providers.PaceFrom(given)
	if err != nil {
		return settings{}, err
	}
	s := settings{
		pace: pace, site: given[settingSite], basePath: given[settingBasePath],
		user: given[settingUser], passwordFile: given[settingPasswordFile], tokenFile: given[settingTokenFile], principal: given[settingPrincipal], keytab: given[settingKeytab],
		krb5Conf: given[settingKrb5Conf], servicePrincipal: given[settingServicePrincipal],
		ca: given[settingCA], certificate: given[settingCertificate], key: given[settingKey], maxBytes: defaultMaxBytes, requests: defaultRequests,
	}
	if s.basePath, err = parseBasePath(s.basePath); err != nil {
		return s, err
	}
	if text, ok := given[settingMaxBytes]; ok {
		if s.maxBytes, err = resource.ParseMemory(text); err != nil || s.maxBytes < leastMaxBytes || s.maxBytes > mostMaxBytes {
			return s, &providers.SettingError{Setting: settingMaxBytes, Value: text, Want: "a size such as 64MiB, from 64KiB to 4GiB"}
		}
	}
	if text, ok := given[settingRequests]; ok {
		if s.requests, err = strconv.Atoi(text); err != nil || s.requests < leastRequests || s.requests > mostRequests {
			return s, &providers.SettingError{Setting: settingRequests, Value: text, Want: fmt.Sprintf("a number from %d to %d", leastRequests, mostRequests)}
		}
	}
	switch text := given[settingInsecure]; text {
	case "", "false":
	case "true":
		s.insecure = true
	default:
		return s, &providers.SettingError{Setting: settingInsecure, Value: text, Want: "true or false"}
	}
	if err := s.parseLimits(given); err != nil {
		return s, err
	}
	if err := s.checkPlace(given); err != nil {
		return s, err
	}
	if err := s.checkProxy(given); err != nil {
		return s, err
	}
	if err := s.checkAuth(given); err != nil {
		return s, err
	}
	return s, s.checkAddresses()
}

// checkPlace checks the address of the cluster and the files for TLS.
func (s *settings) checkPlace(given map[string]string) error {
	text, listed := given[settingAddresses]
	switch {
	case listed && s.site != "":
		return &providers.SettingError{Setting: settingSite, Value: s.site, Want: "either addresses or a site to take them from"}
	case !listed && s.site == "":
		return &providers.SettingError{Setting: settingAddresses, Want: "the addresses of the ResourceManagers, such as http://rm1:8088,http://rm2:8088, or a site to take them from"}
	case s.certificate != "" && s.key == "":
		return &providers.SettingError{Setting: settingKey, Want: "the file with the private key of the certificate"}
	case s.certificate == "" && s.key != "":
		return &providers.SettingError{Setting: settingCertificate, Want: "the file with the certificate that the key belongs to"}
	}
	if !listed {
		return nil
	}
	var err error
	s.addresses, err = parseAddresses(settingAddresses, text)
	return err
}

// checkAuth selects the authentication method and rejects settings of other methods.
func (s *settings) checkAuth(given map[string]string) error {
	s.auth = authentication(given[settingAuth])
	if s.auth == "" {
		s.auth = authNone
		if s.user != "" {
			s.auth = authSimple
		}
	}
	var needs, allows []string
	switch s.auth {
	case authNone:
	case authSimple:
		needs = []string{settingUser}
	case authBasic:
		needs = []string{settingUser, settingPasswordFile}
	case authBearer:
		needs = []string{settingTokenFile}
	case authKerberos:
		needs, allows = []string{settingPrincipal, settingKeytab}, []string{settingKrb5Conf, settingServicePrincipal}
	default:
		return &providers.SettingError{Setting: settingAuth, Value: string(s.auth), Want: "none, simple, basic, bearer or kerberos"}
	}
	belongsTo := map[string]authentication{
		settingUser: authSimple, settingPasswordFile: authBasic, settingTokenFile: authBearer, settingPrincipal: authKerberos, settingKeytab: authKerberos,
		settingKrb5Conf: authKerberos, settingServicePrincipal: authKerberos,
	}
	for _, name := range []string{settingUser, settingPasswordFile, settingTokenFile, settingPrincipal, settingKeytab, settingKrb5Conf, settingServicePrincipal} {
		_, is := given[name]
		switch needed := slices.Contains(needs, name); {
		case needed && !is:
			return &providers.SettingError{Setting: name, Want: "a value, as auth is " + string(s.auth)}
		case is && !needed && !slices.Contains(allows, name):
			return &providers.SettingError{Setting: name, Value: given[name], Want: fmt.Sprintf("auth: %s next to it; auth is %s", belongsTo[name], s.auth)}
		}
	}
	return s.checkNamesOfPrincipals()
}

const wantName = `a name without blanks and ":"`

func notInName(r rune) bool { return r <= ' ' || r == ':' || r == 0x7f }

func (s *settings) checkNamesOfPrincipals() error {
	if strings.ContainsFunc(s.user, notInName) {
		return &providers.SettingError{Setting: settingUser, Value: s.user, Want: wantName}
	}
	if s.auth != authKerberos {
		return nil
	}
	if name, realm, _ := strings.Cut(s.principal, "@"); name == "" || strings.Contains(realm, "@") || strings.ContainsAny(s.principal, " \t\r\n") {
		return &providers.SettingError{Setting: settingPrincipal, Value: s.principal, Want: "a principal such as bursar@EXAMPLE.COM; without a realm it is of the default realm"}
	}
	if s.servicePrincipal == "" {
		s.servicePrincipal = "HTTP/" + hostPattern
	}
	if service, host, ok := strings.Cut(s.servicePrincipal, "/"); !ok || service == "" || host == "" || strings.ContainsAny(s.servicePrincipal, "@ \t\r\n") {
		return &providers.SettingError{
			Setting: settingServicePrincipal, Value: s.servicePrincipal,
			Want: "a principal such as HTTP/_HOST or HTTP/rm1.example.com, without a realm: that is what [domain_realm] of krb5Conf says",
		}
	}
	if s.krb5Conf == "" {
		s.krb5Conf = defaultKrb5Conf
	}
	return nil
}

// checkAddresses checks that the addresses are safe for the credentials, once they are known.
func (s *settings) checkAddresses() error {
	secure := false
	for _, a := range s.addresses {
		secure = secure || a.url.Scheme == "https"
		secret, shown := map[authentication]string{authBasic: "password", authBearer: "token"}[s.auth]
		stays := a.loopback() && s.proxy == nil
		if shown && a.url.Scheme != "https" && !stays && !s.insecure {
			return &providers.SettingError{Setting: s.placeSetting(), Value: a.String(), Want: "https, as everybody on the way can read the " + secret + `; or insecure: "true"`}
		}
	}
	if len(s.addresses) > 0 && !secure {
		for _, f := range [][2]string{{settingCA, s.ca}, {settingCertificate, s.certificate}} {
			if f[1] != "" {
				return &providers.SettingError{Setting: f[0], Value: f[1], Want: "an address with https, which it is for"}
			}
		}
	}
	return nil
}

// placeSetting returns the setting that the addresses come from.
func (s *settings) placeSetting() string {
	if s.site != "" {
		return settingSite
	}
	return settingAddresses
}
