package resource

import (
	"strings"

	"github.com/bursar/bursar/internal/spelling"
)

// The characters that end an unquoted name in an address.
const (
	clusterStops   = ":,@"
	pathStops      = ",@"
	partitionStops = ",@"
)

// String returns "kind:cluster:path", followed by "@partition" if there is one, in the form that
// ParseExternal reads. A name with a comma, an @ or unprintable characters is in double quotes.
func (a Address) String() string {
	s := a.Kind + ":" + spelling.Name(a.Cluster, clusterStops) + ":" + spelling.Name(a.Path, pathStops)
	if a.Partition != "" {
		s += "@" + spelling.Name(a.Partition, partitionStops)
	}
	return s
}

// writtenPlace is the text before the quantities of an external part.
type writtenPlace struct {
	kind, cluster, path, partition string
	// names is the number of names: a kind; a kind and a cluster or a path; or all three.
	names int
	at    bool // there is an @
}

// cutPlace reads a place up to the first comma outside of double quotes, and returns the rest. ok
// is false if double quotes do not end, or if something other than a separator follows them.
func cutPlace(text string) (p writtenPlace, rest string, ok bool) {
	if p.kind, rest, _, ok = spelling.CutName(text, ":,"); !strings.HasPrefix(rest, ":") {
		p.names = 1
		return p, rest, ok
	}
	p.names = 2
	last, behind, quoted, ok := spelling.CutName(rest[1:], ":,")
	if quoted && !ok { // a path, with a partition
		last, behind, _, ok = spelling.CutName(rest[1:], ":,@")
	}
	if !ok {
		return p, "", false
	}
	if strings.HasPrefix(behind, ":") {
		p.cluster, p.names, rest = last, 3, behind
	}
	p.path, behind, ok = cutPath(rest[1:])
	if !ok {
		return p, "", false
	}
	if strings.HasPrefix(behind, "@") {
		p.at = true
		p.partition, behind, _, ok = spelling.CutName(behind[1:], ",")
	}
	return p, behind, ok
}

// cutPath reads a path. An unquoted path ends at the last @ before a comma, or at an @ with quotes
// after it.
func cutPath(text string) (path, rest string, ok bool) {
	if strings.HasPrefix(text, `"`) {
		path, rest, _, ok = spelling.CutName(text, pathStops)
		return path, rest, ok
	}
	end := len(text)
	if i := strings.IndexByte(text, ','); i >= 0 {
		end = i
	}
	if i := strings.Index(text[:end], `@"`); i >= 0 {
		return text[:i], text[i:], true
	}
	if i := strings.LastIndexByte(text[:end], '@'); i >= 0 {
		return text[:i], text[i:], true
	}
	return text[:end], text[end:], true
}

// wantQuotes describes names in double quotes.
const wantQuotes = `names in double quotes with ":", "@", a comma or nothing behind them, and in them \" for a double quote and \\ for a backslash`

// ParseQueue parses "KIND", "KIND:CLUSTER" or "KIND:CLUSTER:PATH[@PARTITION]", with names as in
// Address.String. Names that are left out are empty, but a QUEUE or a CLUSTER at the end must not
// be empty. The error is a *FieldError.
func ParseQueue(text string) (Address, error) {
	p, rest, ok := cutPlace(text)
	if !ok {
		return Address{}, &FieldError{"queue", text, wantQuotes}
	}
	if rest != "" {
		return Address{}, &FieldError{"queue", text, `a name with a comma in double quotes, such as yarn:prod:"root.a,b"`}
	}
	if p.kind == "" || p.names > 1 && p.path == "" {
		return Address{}, &FieldError{"queue", text, "KIND:CLUSTER or KIND:CLUSTER:QUEUE, such as yarn:prod or yarn:prod:root.a"}
	}
	at := Address{Kind: p.kind, Cluster: p.cluster, Path: p.path, Partition: p.partition}
	if p.names == 2 { // here the second is a cluster
		at.Cluster, at.Path = p.path, ""
		if p.at {
			at.Cluster, at.Partition = p.path+"@"+p.partition, ""
		}
	}
	return at, nil
}

// ExternalQuantities returns the part of an external part's text after the address, in
// ParseExternal's syntax; empty if there is none.
func ExternalQuantities(text string) string {
	_, rest, _ := cutPlace(text)
	return strings.TrimPrefix(rest, ",")
}

// ParseExternal parses "KIND:CLUSTER:PATH[@PARTITION],NAME=QUANTITY,…", the inverse of
// External.String: "yarn:prod:root.a@gpu,memory=4GiB,cpu=4". CLUSTER may be empty,
// "yarn::root.a,…", or left out with its colon, "yarn:root.a,…": the default cluster of that kind.
// Names may be in double quotes, and those with a comma or an @ must be, as in
// `yarn:prod:"root.a,b",cpu=1`. The quantities have the syntax of ParseVector; "none" means no
// quantity. The error is a *FieldError.
func ParseExternal(text string) (External, error) {
	at, rest, err := parseAddress(text)
	if err != nil {
		return External{}, err
	}
	if rest == "" {
		return External{}, &FieldError{"external", text, "quantities behind the address, as in " + externalExample}
	}
	quantities := rest[1:]
	e := External{Address: at}
	if quantities == (Vector{}).String() {
		return e, nil
	}
	within := "external[" + at.String() + "]"
	for pair := range strings.SplitSeq(quantities, ",") {
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return External{}, &FieldError{within, pair, "NAME=QUANTITY, as in " + externalExample + `; a name with a comma in double quotes, as in yarn:prod:"root.a,b",cpu=4`}
		}
		if _, twice := e.Get(name); twice {
			return External{}, &FieldError{within + "." + name, value, "each dimension once"}
		}
		n, err := ParseQuantity(name, value)
		if err != nil {
			return External{}, fieldWithin(within, err)
		}
		e.Vector = e.With(name, n)
	}
	if err := e.Validate(); err != nil {
		return External{}, fieldWithin(within, err)
	}
	return e, nil
}

// parseAddress parses "KIND:CLUSTER:PATH[@PARTITION]" or "KIND:PATH[@PARTITION]" at the beginning
// of a text. rest begins with a comma, or is empty.
func parseAddress(text string) (at Address, rest string, err error) {
	p, rest, ok := cutPlace(text)
	if !ok {
		return at, "", &FieldError{"external", text, wantQuotes}
	}
	written := text[:len(text)-len(rest)]
	if p.names == 1 {
		return at, "", &FieldError{"external", written, "KIND:CLUSTER:PATH and quantities, such as " + externalExample +
			", or yarn:root.a,memory=4GiB,cpu=4 for the default cluster"}
	}
	if p.at && p.partition == "" && !strings.Contains(p.path, "@") {
		return at, "", &FieldError{"external", written, "the partition behind @, or no @ for the default one"}
	}
	at = Address{Kind: p.kind, Cluster: p.cluster, Path: p.path, Partition: p.partition}
	if err := at.check(); err != nil {
		return at, "", err.within("external[" + written + "]")
	}
	return at, rest, nil
}
