package yarn

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// siteOf makes a yarn-site.xml of names and values.
func siteOf(pairs ...string) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
<!-- made by hand -->
<configuration>
`)
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(&b, "  <property>\n    <name> %s\n</name>\n    <value>%s</value>\n    <description>about <b>it</b></description>\n  </property>\n", pairs[i], pairs[i+1])
	}
	return b.String() + "</configuration>\n"
}

func TestAddressesFromSite(t *testing.T) {
	const rm = "yarn.resourcemanager."
	ha := []string{rm + "ha.enabled", "true", rm + "ha.rm-ids", "rm1, rm2"}
	and := func(more ...string) string { return siteOf(append(slices.Clip(ha), more...)...) }
	for name, c := range map[string]struct {
		site, want string // want: addresses, or with "!" the error text
	}{
		"one by its web address":             {siteOf(rm+"webapp.address", "rm.example.com:18088", rm+"hostname", "other"), "http://rm.example.com:18088"},
		"one by its name":                    {siteOf(rm+"hostname", " rm.example.com "), "http://rm.example.com:8088"},
		"one that listens everywhere":        {siteOf(rm+"webapp.address", "0.0.0.0:18088", rm+"hostname", "rm"), "http://rm:18088"},
		"one without a port":                 {siteOf(rm+"webapp.address", "rm"), "http://rm:8088"},
		"one by a variable":                  {siteOf(rm+"webapp.address", "${"+rm+"hostname}:9999", rm+"hostname", "${site}.${domain}", "site", "rm", "domain", "example.com"), "http://rm.example.com:9999"},
		"https":                              {siteOf("yarn.http.policy", "HTTPS_ONLY", rm+"hostname", "rm", rm+"webapp.address", "rm:1"), "https://rm:8090"},
		"https by its web address":           {siteOf("yarn.http.policy", "https_only", rm+"webapp.https.address", "rm:18090"), "https://rm:18090"},
		"http although https is there":       {siteOf("yarn.http.policy", "HTTP_ONLY", rm+"webapp.https.address", "rm:18090", rm+"webapp.address", "rm:1"), "http://rm:1"},
		"two":                                {and(rm+"webapp.address.rm1", "one:8088", rm+"webapp.address.rm2", "two:8088"), "http://one:8088 http://two:8088"},
		"two, by name and by address":        {and(rm+"hostname.rm1", "one", rm+"webapp.address.rm2", "two:18088"), "http://one:8088 http://two:18088"},
		"two, with https":                    {and("yarn.http.policy", "HTTPS_ONLY", rm+"hostname.rm1", "one", rm+"webapp.https.address.rm2", "two:18090"), "https://one:8090 https://two:18090"},
		"two, in the order of the ids":       {siteOf(rm+"hostname.a", "one", rm+"hostname.b", "two", rm+"ha.rm-ids", "b,a"), "http://two:8088 http://one:8088"},
		"high availability that is off":      {siteOf(rm+"ha.enabled", "false", rm+"ha.rm-ids", "rm1,rm2", rm+"hostname", "rm"), "http://rm:8088"},
		"the last one wins":                  {siteOf(rm+"hostname", "first", rm+"hostname", "second"), "http://second:8088"},
		"unless one is final":                {strings.Replace(siteOf(rm+"hostname", "first", rm+"hostname", "second"), "</value>", "</value><final>true</final>", 1), "http://first:8088"},
		"comments and CDATA":                 {siteOf(rm+"hostname", "<!-- old: x -->r<![CDATA[m]]>"), "http://rm:8088"},
		"IPv6":                               {siteOf(rm+"webapp.address", "[::1]:8088"), "http://[::1]:8088"},
		"none":                               {siteOf(), "!property yarn.resourcemanager.webapp.address: is not set, nor is yarn.resourcemanager.hostname"},
		"one that listens nowhere known":     {siteOf(rm+"webapp.address", "0.0.0.0:8088"), "!property yarn.resourcemanager.hostname: does not say which machine it is"},
		"one of two is missing":              {and(rm+"hostname.rm1", "one"), "!yarn.resourcemanager.webapp.address.rm2: is not set"},
		"no ids":                             {siteOf(rm+"ha.enabled", "true"), "!rm-ids: is not set"},
		"too many ids":                       {siteOf(rm+"ha.rm-ids", strings.Repeat("x,", 17)), "!17 ids"},
		"another policy":                     {siteOf("yarn.http.policy", "MAYBE", rm+"hostname", "rm"), "!yarn.http.policy"},
		"a variable of the environment":      {siteOf(rm+"hostname", "${env.HOSTNAME}"), "!${env.HOSTNAME} is no property of this file"},
		"a variable that does not end":       {siteOf(rm+"hostname", "${x"), "!is no property of this file"},
		"a variable that leads to itself":    {siteOf(rm+"hostname", "${x}", "x", "${y}", "y", "${x}"), "!its variables never end"},
		"variables that double":              {siteOf(rm+"hostname", "${a}", "a", strings.Repeat("${b}", 2000), "b", strings.Repeat("${c}", 2000), "c", strings.Repeat("x", 60_000)), "!its variables never end"},
		"an address that is none":            {siteOf(rm+"webapp.address", "rm:port"), "!makes an address that is none"},
		"an address with a password":         {siteOf(rm+"webapp.address", "bob:hunter2@rm:8088"), "!without user and password"},
		"twice the same":                     {and(rm+"hostname.rm1", "one", rm+"hostname.rm2", "one"), "!no address twice"},
		"another file":                       {strings.Replace(siteOf(rm+"hostname", "rm"), "<property>", `<xi:include href="/etc/passwd"/><property>`, 1), "!includes another file"},
		"no XML":                             {"yarn.resourcemanager.hostname=rm", "!has no element configuration"},
		"XML that breaks off":                {siteOf(rm+"hostname", "rm")[:200], "!is no XML"},
		"another document":                   {"<html><body/></html>", `!begins with the element "html"`},
		"nothing":                            {"", "!has no element configuration"},
		"entities":                           {`<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>` + siteOf(rm+"hostname", "&b;"), "!document type"},
		"an entity of its own":               {siteOf(rm+"hostname", "&b;"), "!is no XML"},
		"an entity of a file":                {`<!DOCTYPE x SYSTEM "file:///etc/passwd">` + siteOf(rm+"hostname", "rm"), "!document type"},
		"deep":                               {"<configuration>" + strings.Repeat("<a>", 100), "!nested deeper than 16"},
		"another encoding":                   {strings.Replace(siteOf(rm+"hostname", "rm"), "UTF-8", "UTF-16", 1), "!UTF-16"},
		"long":                               {siteOf(rm+"hostname", strings.Repeat("x", maxSiteBytes)), "!is longer than"},
		"what stands elsewhere is no matter": {"<configuration><a><property><name>" + rm + "hostname</name><value>x</value></property></a></configuration>", "!is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := AddressesFromSite(strings.NewReader(c.site))
			if want, wrong := strings.CutPrefix(c.want, "!"); wrong {
				if _, typed := errors.AsType[*SiteError](err); !typed || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%q, %v; want an error with %q", got, err, want)
				}
				return
			}
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("%q, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestSiteThatCannotBeRead(t *testing.T) {
	broken := errors.New("the disk is broken")
	if _, err := AddressesFromSite(io.MultiReader(strings.NewReader("<configuration>"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// The reader stops at the limit, however long the file is.
func TestEndlessSite(t *testing.T) {
	read := &counter{r: io.MultiReader(strings.NewReader("<configuration><property><value>"), spaces{})}
	if _, err := AddressesFromSite(read); err == nil || read.n > maxSiteBytes+1 {
		t.Errorf("%v after %d bytes", err, read.n)
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

func FuzzAddressesFromSite(f *testing.F) {
	f.Add(siteOf("yarn.resourcemanager.hostname", "rm"))
	f.Add(siteOf("yarn.resourcemanager.ha.rm-ids", "a,b", "yarn.resourcemanager.hostname.a", "${x}", "x", "one", "yarn.resourcemanager.webapp.address.b", "two:1"))
	f.Fuzz(func(t *testing.T, text string) {
		list, err := AddressesFromSite(strings.NewReader(text))
		if err != nil {
			return
		}
		if _, err := parseSettings(map[string]string{"addresses": strings.Join(list, ",")}); err != nil {
			t.Errorf("%q: %v", list, err)
		}
	})
}
