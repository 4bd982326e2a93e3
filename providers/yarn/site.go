package yarn

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
)

// Limits on a yarn-site.xml. Real ones have some hundred properties.
const (
	maxSiteBytes     = 4 << 20
	maxSiteDepth     = 16
	maxSiteValue     = 64 << 10 // bytes of a value with its variables replaced
	maxSubstitutions = 20       // as in Hadoop's Configuration
)

// SiteError reports why a yarn-site.xml gives no addresses.
type SiteError struct {
	// Property is the wrong or missing property; empty: the whole file is wrong.
	Property, Reason string
	Err              error
}

func (e *SiteError) Error() string {
	text := "yarn-site: "
	if e.Property != "" {
		text += "property " + e.Property + ": "
	}
	text += e.Reason
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause, nil if there is none.
func (e *SiteError) Unwrap() error { return e.Err }

// AddressesFromSite reads the addresses of the ResourceManagers' web interfaces from a
// yarn-site.xml, in the order of yarn.resourcemanager.ha.rm-ids. It follows Hadoop's RMHAUtils:
// yarn.http.policy selects http or https. The address is yarn.resourcemanager.webapp.address.ID or
// webapp.https.address.ID, otherwise yarn.resourcemanager.hostname.ID with port 8088 or 8090. If
// there are no ids, the properties without an id belong to the only ResourceManager. Variables
// refer to other properties of the file. A value that needs a variable of the environment or of
// Java is an error, because these are unknown here. The error is a *SiteError.
func AddressesFromSite(r io.Reader) ([]string, error) {
	site, err := readSite(r)
	if err != nil {
		return nil, err
	}
	ids, err := site.ids()
	if err != nil {
		return nil, err
	}
	scheme, port, property := "http", "8088", "yarn.resourcemanager.webapp.address"
	policy, err := site.value("yarn.http.policy")
	if err != nil {
		return nil, err
	}
	switch strings.ToUpper(policy) {
	case "", "HTTP_ONLY", "HTTP_AND_HTTPS":
	case "HTTPS_ONLY":
		scheme, port, property = "https", "8090", "yarn.resourcemanager.webapp.https.address"
	default:
		return nil, &SiteError{Property: "yarn.http.policy", Reason: fmt.Sprintf("%q: want HTTP_ONLY or HTTPS_ONLY", policy)}
	}
	if len(ids) > maxAddresses {
		return nil, &SiteError{Property: propertyIDs, Reason: fmt.Sprintf("%d ids: want at most %d", len(ids), maxAddresses)}
	}
	var list []string
	for _, id := range ids {
		at, err := site.webAddress(property, id, port)
		if err != nil {
			return nil, err
		}
		list = append(list, scheme+"://"+at)
	}
	if _, err := parseAddresses(settingSite, strings.Join(list, ",")); err != nil {
		return nil, &SiteError{Property: property, Reason: "makes an address that is none", Err: err}
	}
	return list, nil
}

const propertyIDs = "yarn.resourcemanager.ha.rm-ids"

// ids returns the suffixes of the properties of each ResourceManager: ".rm1", ".rm2"; or "" for
// the only one.
func (s site) ids() ([]string, error) {
	enabled, err := s.value("yarn.resourcemanager.ha.enabled")
	if err != nil {
		return nil, err
	}
	text, err := s.value(propertyIDs)
	if err != nil {
		return nil, err
	}
	var ids []string
	for id := range strings.SplitSeq(text, ",") {
		if id = strings.TrimSpace(id); id != "" {
			ids = append(ids, "."+id)
		}
	}
	switch {
	case strings.EqualFold(enabled, "false"), len(ids) == 0 && !strings.EqualFold(enabled, "true"):
		return []string{""}, nil
	case len(ids) == 0:
		return nil, &SiteError{Property: propertyIDs, Reason: "is not set, and yarn.resourcemanager.ha.enabled is true"}
	}
	return ids, nil
}

// webAddress returns host:port.
func (s site) webAddress(property, id, port string) (string, error) {
	const hostname = "yarn.resourcemanager.hostname"
	text, err := s.value(property + id)
	if err != nil {
		return "", err
	}
	for _, scheme := range []string{"http://", "https://"} {
		text = strings.TrimPrefix(text, scheme)
	}
	host, given, found := cutPort(strings.TrimRight(text, "/"))
	if found {
		port = given
	}
	if host != "" && host != "0.0.0.0" && host != "[::]" {
		return host + ":" + port, nil
	}
	// The server listens on all addresses, so use its host name.
	if host, err = s.value(hostname + id); err != nil {
		return "", err
	}
	switch {
	case host == "" && text == "":
		return "", &SiteError{Property: property + id, Reason: "is not set, nor is " + hostname + id}
	case host == "" || host == "0.0.0.0" || host == "::":
		return "", &SiteError{Property: hostname + id, Reason: "does not say which machine it is"}
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port), nil
}

// site maps the names of a file's properties to their values, before variables are replaced.
type site map[string]siteProperty

type siteProperty struct {
	value string
	final bool
}

// value returns the value of a property with its variables replaced; empty if it is not set. The
// value of a variable may contain variables again. The limits end a cycle, and a value that doubles
// with each step.
func (s site) value(name string) (string, error) {
	text := strings.TrimSpace(s[name].value)
	for range maxSubstitutions {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			return text, nil
		}
		variable, after, closed := strings.Cut(rest, "}")
		property, set := s[variable]
		if !closed || !set {
			return "", &SiteError{Property: name, Reason: fmt.Sprintf("${%s} is no property of this file", variable)}
		}
		text = before + strings.TrimSpace(property.value) + after
		if len(text) > maxSiteValue {
			break
		}
	}
	return "", &SiteError{Property: name, Reason: "its variables never end"}
}

// readSite reads configuration/property/{name,value,final} and ignores all other elements.
func readSite(r io.Reader) (site, error) {
	limited := &io.LimitedReader{R: r, N: maxSiteBytes + 1}
	decoder := xml.NewDecoder(limited)
	decoder.CharsetReader = func(charset string, _ io.Reader) (io.Reader, error) {
		return nil, fmt.Errorf("character set %q: want UTF-8", charset)
	}
	read := siteReader{properties: site{}}
	for {
		token, err := decoder.Token()
		if limited.N <= 0 {
			return nil, &SiteError{Reason: fmt.Sprintf("is longer than %d bytes", maxSiteBytes)}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, &SiteError{Reason: "is no XML", Err: err}
		}
		if err := read.token(token); err != nil {
			return nil, err
		}
	}
	if !read.root {
		return nil, &SiteError{Reason: "has no element configuration"}
	}
	return read.properties, nil
}

// siteReader collects properties from tokens.
type siteReader struct {
	properties site
	path       []string // the open elements
	root       bool     // a configuration element was found
	name       string
	current    siteProperty
	text       strings.Builder
}

func (r *siteReader) token(token xml.Token) error {
	switch token := token.(type) {
	case xml.Directive:
		// A document type can define entities that expand without end, and refer to other files. No
		// yarn-site.xml needs one.
		return &SiteError{Reason: "has a document type declaration: want one without"}
	case xml.StartElement:
		return r.startElement(token.Name.Local)
	case xml.CharData:
		if r.isAt("name", "value", "final") {
			r.text.Write(token)
		}
	case xml.EndElement:
		r.endElement()
	}
	return nil
}

func (r *siteReader) startElement(name string) error {
	r.path = append(r.path, name)
	r.text.Reset()
	switch {
	case len(r.path) > maxSiteDepth:
		return &SiteError{Reason: fmt.Sprintf("is nested deeper than %d", maxSiteDepth)}
	case len(r.path) == 1 && name != "configuration":
		return &SiteError{Reason: fmt.Sprintf("begins with the element %.40q: want configuration", name)}
	case name == "include":
		return &SiteError{Reason: "includes another file: want one that holds all, or addresses"}
	}
	r.root = true
	if name == "property" {
		r.name, r.current = "", siteProperty{}
	}
	return nil
}

func (r *siteReader) endElement() {
	text := strings.TrimSpace(r.text.String())
	switch {
	case r.isAt("name"):
		r.name = text
	case r.isAt("value"):
		r.current.value = text
	case r.isAt("final"):
		r.current.final = strings.EqualFold(text, "true")
	case len(r.path) == 2 && r.path[1] == "property" && r.name != "":
		// The last definition wins, unless an earlier one is final.
		if !r.properties[r.name].final {
			r.properties[r.name] = r.current
		}
	}
	r.text.Reset()
	r.path = r.path[:len(r.path)-1]
}

// isAt reports whether the innermost open element has one of these names and is a child of a
// property.
func (r *siteReader) isAt(names ...string) bool {
	return len(r.path) == 3 && r.path[1] == "property" && slices.Contains(names, r.path[2])
}
