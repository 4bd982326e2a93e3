package yarn

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/providers"
)

func TestSettings(t *testing.T) {
	place := "http://rm1:8088"
	with := func(pairs ...string) map[string]string {
		list := map[string]string{"addresses": place}
		for i := 0; i+1 < len(pairs); i += 2 {
			list[pairs[i]] = pairs[i+1]
		}
		return list
	}
	basic := []string{"auth", "basic", "user", "alice", "passwordFile", "/etc/p"}
	kerberos := []string{"auth", "kerberos", "principal", "bursar@EXAMPLE.COM", "keytab", "/etc/k"}
	bearer := []string{"auth", "bearer", "tokenFile", "/etc/t"}
	login := []string{"proxyUser", "bob", "proxyPasswordFile", "/etc/p"}
	and := func(list []string, more ...string) map[string]string {
		return with(append(slices.Clone(list), more...)...)
	}
	for name, c := range map[string]struct {
		settings       map[string]string
		wrong, say     string // the rejected setting; empty: none
		addresses      string
		authentication authentication
	}{
		"one":                       {with(), "", "", "http://rm1:8088", authNone},
		"several":                   {with("addresses", " http://RM1:8088/ , https://rm2:8090,\nhttp://[::1]:8088"), "", "", "http://rm1:8088 https://rm2:8090 http://[::1]:8088", authNone},
		"no port":                   {with("addresses", "https://knox"), "", "", "https://knox", authNone},
		"all of the pace":           {with("interval", "10s", "timeout", "5s", "maxAge", "1m", "settle", "0s"), "", "", place, authNone},
		"a user":                    {with("user", "alice"), "", "", place, authSimple},
		"no auth":                   {with("auth", "none"), "", "", place, authNone},
		"kerberos":                  {and(kerberos), "", "", place, authKerberos},
		"kerberos, all of it":       {and(kerberos, "krb5Conf", "/etc/krb5", "servicePrincipal", "HTTP/_HOST"), "", "", place, authKerberos},
		"basic with TLS":            {and(basic, "addresses", "https://rm1:8090"), "", "", "https://rm1:8090", authBasic},
		"basic here":                {and(basic, "addresses", "http://localhost:8088,http://127.0.0.2:8088,http://[::1]:1"), "", "", "http://localhost:8088 http://127.0.0.2:8088 http://[::1]:1", authBasic},
		"basic, all the same":       {and(basic, "insecure", "true"), "", "", place, authBasic},
		"TLS":                       {with("addresses", "https://rm1:8090", "ca", "/ca", "certificate", "/c", "key", "/k"), "", "", "https://rm1:8090", authNone},
		"a size":                    {with("maxBytes", "1GiB"), "", "", place, authNone},
		"what a master takes":       {with("am", "memory=2GiB,cpu=2"), "", "", place, authNone},
		"no master":                 {with("am", "memory=0B,cpu=0"), "", "", place, authNone},
		"limits":                    {with("userLabel", "owner", "calculator", "default", "smallestContainer", "memory=512MiB", "amShare", "-1"), "", "", place, authNone},
		"no users":                  {with("userLabel", "none", "calculator", "detect"), "", "", place, authNone},
		"a master of no sense":      {with("am", "1GiB"), "am", "such as memory=1GiB,cpu=1", "", ""},
		"a master with a device":    {with("am", "memory=1GiB,gpu=1"), "am", "such as memory=1GiB,cpu=1", "", ""},
		"a master in mb":            {with("am", "memory=1024,cpu=1"), "am", "such as 1024MiB or 1024GiB: without one it is bytes", "", ""},
		"a tiny master":             {with("am", "memory=1KiB,cpu=1"), "am", "1MiB or more, not 1KiB", "", ""},
		"a container in mb":         {with("smallestContainer", "memory=1024,cpu=1"), "smallestContainer", "such as 1024MiB or 1024GiB", "", ""},
		"a step in mb":              {with("containerStep", "memory=512"), "containerStep", "such as 512MiB or 512GiB", "", ""},
		"a step of no core":         {with("containerStep", "cpu=0.1m"), "containerStep", "at least 1m", "", ""},
		"a label of no sense":       {with("userLabel", "a b"), "userLabel", "the key of a label", "", ""},
		"another calculator":        {with("calculator", "cpu"), "calculator", "default, dominant or detect", "", ""},
		"a step of no sense":        {with("containerStep", "1GiB"), "containerStep", "such as memory=1GiB,cpu=1", "", ""},
		"a container of no sense":   {with("smallestContainer", "memory=1GiB,memory=1GiB"), "smallestContainer", "such as memory=1GiB,cpu=1", "", ""},
		"a share of all and more":   {with("amShare", "1.5"), "amShare", "up to 1", "", ""},
		"a share of no sense":       {with("amShare", "half"), "amShare", "up to 1", "", ""},
		"it grows":                  {with("growsTo", "memory=10TiB,cpu=2000", "awaitStarts", "true"), "", "", place, authNone},
		"it grows in memory alone":  {with("growsTo", "memory=10TiB", "awaitStarts", "false"), "", "", place, authNone},
		"it grows by nonsense":      {with("growsTo", "10TiB"), "growsTo", "such as memory=10TiB,cpu=2000", "", ""},
		"it grows devices":          {with("growsTo", "gpu=8"), "growsTo", "memory and cpu of the whole cluster", "", ""},
		"it awaits, perhaps":        {with("awaitStarts", "yes"), "awaitStarts", "true or false", "", ""},
		"nothing":                   {map[string]string{}, "addresses", "or a site to take them from", "", ""},
		"both":                      {with("site", "/etc/yarn-site.xml"), "site", "either addresses or a site", "", ""},
		"an empty one":              {with("user", ""), "user", "a value", "", ""},
		"a misspelt one":            {with("adresses", "http://rm1:8088"), "adresses", "did you mean addresses?", "", ""},
		"in another case":           {with("maxbytes", "1MiB"), "maxbytes", "did you mean maxBytes?", "", ""},
		"with a dash":               {with("base-path", "/x"), "base-path", "did you mean basePath?", "", ""},
		"a secret itself":           {with("password", "hunter2"), "password", "did you mean passwordFile?", "", ""},
		"another altogether":        {with("wibble", "x"), "wibble", "that there is: addresses, site", "", ""},
		"of the pace":               {with("interval", "1s"), "interval", "from 2s", "", ""},
		"no scheme":                 {with("addresses", "rm1:8088"), "addresses", "such as http://rm1:8088", "", ""},
		"another scheme":            {with("addresses", "ftp://rm1"), "addresses", "such as http://rm1:8088", "", ""},
		"no host":                   {with("addresses", "http://:8088"), "addresses", "such as http://rm1:8088", "", ""},
		"a port of words":           {with("addresses", "http://rm1:http"), "addresses", "such as http://rm1:8088", "", ""},
		"a port too far":            {with("addresses", "http://rm1:70000"), "addresses", "a port from 1 to 65535", "", ""},
		"an empty port":             {with("addresses", "http://rm1:"), "addresses", "a port from 1 to 65535", "", ""},
		"a path":                    {with("addresses", "http://rm1:8088/ws/v1/cluster"), "addresses", "basePath is for that", "", ""},
		"a query":                   {with("addresses", "http://rm1:8088?user.name=x"), "addresses", "without a query", "", ""},
		"twice":                     {with("addresses", "http://rm1:8088,http://RM1:8088/"), "addresses", "no address twice", "", ""},
		"commas":                    {with("addresses", ","), "addresses", "1 to 16 addresses", "", ""},
		"too many":                  {with("addresses", strings.Repeat("http://rm1:8088,", 17)), "addresses", "1 to 16 addresses", "", ""},
		"a password in it":          {with("addresses", "http://bob:hunter2@rm1:8088"), "addresses", "without user and password", "", ""},
		"a password with a comma":   {with("addresses", "http://bob:hunter2,x@rm1:8088"), "addresses", "without user and password", "", ""},
		"a password and nothing":    {with("addresses", "bob:hunter2@rm1"), "addresses", "without user and password", "", ""},
		"a base path that is none":  {with("basePath", "ws/v1"), "basePath", "such as /ws/v1/cluster", "", ""},
		"a base path that goes up":  {with("basePath", "/ws/../x"), "basePath", "such as /ws/v1/cluster", "", ""},
		"a base path with a query":  {with("basePath", "/ws?x"), "basePath", "such as /ws/v1/cluster", "", ""},
		"a size that is none":       {with("maxBytes", "much"), "maxBytes", "from 64KiB to 4GiB", "", ""},
		"a size too small":          {with("maxBytes", "1KiB"), "maxBytes", "from 64KiB to 4GiB", "", ""},
		"insecure, perhaps":         {with("insecure", "yes"), "insecure", "true or false", "", ""},
		"another auth":              {with("auth", "ntlm"), "auth", "none, simple, basic, bearer or kerberos", "", ""},
		"bearer with TLS":           {and(bearer, "addresses", "https://rm1:8090"), "", "", "https://rm1:8090", authBearer},
		"bearer here":               {and(bearer, "addresses", "http://localhost:8088"), "", "", "http://localhost:8088", authBearer},
		"bearer in the open":        {and(bearer), "addresses", "everybody on the way can read the token", "", ""},
		"bearer here by a proxy":    {and(bearer, "addresses", "http://localhost:8088", "proxy", "http://p:3128"), "addresses", "everybody on the way can read the token", "", ""},
		"bearer without a token":    {with("auth", "bearer"), "tokenFile", "as auth is bearer", "", ""},
		"a token alone":             {with("tokenFile", "/etc/t"), "tokenFile", "auth: bearer next to it; auth is none", "", ""},
		"a token itself":            {with("token", "hunter2"), "token", "did you mean tokenFile?", "", ""},
		"a proxy":                   {with("proxy", "http://p:3128/"), "", "", place, authNone},
		"a proxy with a user":       {and(login, "proxy", "http://localhost:3128"), "", "", place, authNone},
		"a proxy, all the same":     {and(login, "proxy", "http://p:3128", "insecure", "true"), "", "", place, authNone},
		"a proxy in the open":       {and(login, "proxy", "http://p:3128"), "proxy", "everybody on the way can read its password", "", ""},
		"a proxy with a password":   {with("proxy", "http://bob:hunter2@p:3128"), "proxy", "without user and password", "", ""},
		"a proxy with TLS":          {with("proxy", "https://p:3128"), "proxy", "such as http://proxy:3128", "", ""},
		"a proxy that is none":      {with("proxy", "p:3128"), "proxy", "such as http://proxy:3128", "", ""},
		"a user of no proxy":        {and(login), "proxyUser", "a proxy that it is for", "", ""},
		"a proxy without a user":    {with("proxy", "http://localhost", "proxyPasswordFile", "/p"), "proxyUser", "whose password", "", ""},
		"a proxy without password":  {with("proxy", "http://localhost", "proxyUser", "bob"), "proxyPasswordFile", "the password of the user", "", ""},
		"few requests":              {with("requestsPerMinute", "59"), "requestsPerMinute", "from 60 to 100000", "", ""},
		"requests of no number":     {with("requestsPerMinute", "many"), "requestsPerMinute", "from 60 to 100000", "", ""},
		"requests":                  {with("requestsPerMinute", "60"), "", "", place, authNone},
		"a user of nobody":          {with("auth", "none", "user", "alice"), "user", "auth: simple next to it; auth is none", "", ""},
		"simple without user":       {with("auth", "simple"), "user", "as auth is simple", "", ""},
		"basic without user":        {with("auth", "basic", "passwordFile", "/etc/p"), "user", "as auth is basic", "", ""},
		"basic without password":    {with("auth", "basic", "user", "alice"), "passwordFile", "as auth is basic", "", ""},
		"a password alone":          {with("passwordFile", "/etc/p"), "passwordFile", "auth: basic next to it; auth is none", "", ""},
		"a password for simple":     {with("user", "alice", "passwordFile", "/etc/p"), "passwordFile", "auth: basic next to it; auth is simple", "", ""},
		"basic in the open":         {and(basic), "addresses", "everybody on the way can read the password", "", ""},
		"basic in the open, partly": {and(basic, "addresses", "https://rm1,http://rm2:8088"), "addresses", "everybody on the way can read the password", "", ""},
		"kerberos without keytab":   {with("auth", "kerberos", "principal", "x"), "keytab", "as auth is kerberos", "", ""},
		"kerberos without name":     {with("auth", "kerberos", "keytab", "x"), "principal", "as auth is kerberos", "", ""},
		"kerberos and a user":       {and(kerberos, "user", "alice"), "user", "auth is kerberos", "", ""},
		"a keytab for nothing":      {with("keytab", "/etc/k"), "keytab", "auth: kerberos next to it", "", ""},
		"a krb5.conf for nothing":   {with("krb5Conf", "/etc/k"), "krb5Conf", "auth: kerberos next to it", "", ""},
		"a principal that is none":  {and(kerberos, "principal", "@EXAMPLE.COM"), "principal", "such as bursar@EXAMPLE.COM", "", ""},
		"a service that is none":    {and(kerberos, "servicePrincipal", "HTTP"), "servicePrincipal", "such as HTTP/_HOST", "", ""},
		"a service with a realm":    {and(kerberos, "servicePrincipal", "HTTP/rm1@EXAMPLE.COM"), "servicePrincipal", "without a realm", "", ""},
		"a user with a colon":       {with("user", "al:ice"), "user", "a name without", "", ""},
		"a certificate alone":       {with("addresses", "https://rm1", "certificate", "/c"), "key", "the private key", "", ""},
		"a key alone":               {with("addresses", "https://rm1", "key", "/k"), "certificate", "the key belongs to", "", ""},
		"a CA for nothing":          {with("ca", "/ca"), "ca", "an address with https", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := parseSettings(c.settings)
			if checked := Kind().Check(c.settings); (checked == nil) != (err == nil) {
				t.Errorf("Check says %v", checked)
			}
			if c.wrong != "" {
				refused, ok := errors.AsType[*providers.SettingError](err)
				if !ok || refused.Setting != c.wrong || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%v\nwant %s refused with %q", err, c.wrong, c.say)
				}
				return
			}
			var list []string
			for _, a := range s.addresses {
				list = append(list, a.String())
			}
			if err != nil || strings.Join(list, " ") != c.addresses || s.auth != c.authentication {
				t.Errorf("%v: %q, %s; want %q, %s", err, list, s.auth, c.addresses, c.authentication)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	s, err := parseSettings(map[string]string{"addresses": "http://rm1:8088", "auth": "kerberos", "principal": "p", "keytab": "/k"})
	if err != nil || s.basePath != "/ws/v1/cluster" || s.maxBytes != 64<<20 || s.krb5Conf != "/etc/krb5.conf" || s.servicePrincipal != "HTTP/_HOST" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestKindNamesItsFiles(t *testing.T) {
	k := Kind()
	if k.Name() != "yarn" {
		t.Error(k.Name())
	}
	if diff := cmp.Diff([]string{"site", "passwordFile", "tokenFile", "keytab", "krb5Conf", "ca", "certificate", "key", "proxyPasswordFile"}, k.Files()); diff != "" {
		t.Error(diff)
	}
	for _, name := range k.Files() {
		if !slices.Contains(settingNames(), name) {
			t.Errorf("%s is no setting", name)
		}
	}
}

func TestOpenTakesAddressesFromASite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "yarn-site.xml")
	site := func(policy string) string {
		return `<configuration><property><name>yarn.http.policy</name><value>` + policy + `</value></property>
			<property><name>yarn.resourcemanager.hostname</name><value>rm1</value></property></configuration>`
	}
	write(t, path, site("HTTPS_ONLY"))
	p, err := Kind().Open("prod", map[string]string{"site": path})
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := p.(*Provider); !ok || len(got.servers) != 1 || got.servers[0].String() != "https://rm1:8090" {
		t.Errorf("%+v", p)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	password := write(t, filepath.Join(t.TempDir(), "password"), "secret")
	for name, c := range map[string]struct {
		site string
		more map[string]string
		want string
	}{
		"a password in the open": {site("HTTP_ONLY"), map[string]string{"auth": "basic", "user": "alice", "passwordFile": password}, "everybody on the way"},
		"a CA for nothing":       {site("HTTP_ONLY"), map[string]string{"ca": path}, "an address with https"},
		"no site":                {"<html/>", nil, "want configuration"},
		"nowhere":                {"<configuration/>", nil, "is not set"},
	} {
		write(t, path, c.site)
		settings := map[string]string{"site": path}
		maps.Copy(settings, c.more)
		_, err := Kind().Open("prod", settings)
		if wrong, ok := errors.AsType[*providers.SettingError](err); !ok || !strings.Contains(wrong.Want, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, missing := range []string{path + ".none", filepath.Dir(path)} {
		_, err := Kind().Open("prod", map[string]string{"site": missing})
		if wrong, ok := errors.AsType[*providers.SettingError](err); !ok || wrong.Setting != "site" || wrong.Value != missing {
			t.Errorf("%s: %v", missing, err)
		}
	}
}
