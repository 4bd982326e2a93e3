// Package providerfile reads files of providers, which configure how external clusters are read:
//
//	providers:
//	  - kind: yarn
//	    cluster: prod
//	    default: true
//	    settings: {addresses: "http://rm1:8088,http://rm2:8088", interval: 5s}
//	  - kind: exec
//	    cluster: licences
//	    settings: {command: [/usr/local/libexec/licences, MATLAB], user: nobody}
//
// It checks everything that one file shows: fields, kinds, settings as far as the kind's Check
// goes, that clusters are unique, and that no kind has two defaults. A file is accepted as a whole
// or not at all.
//
// The functions are pure if the kinds' checks are.
package providerfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bursar/bursar/internal/yamlfile"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers"
)

// Error describes a fault in a file and its place: File, Line, Column, Field, Reason. Its Excerpt
// shows the place.
type Error = yamlfile.Error

// Limits of the API, and one on a file.
const (
	maxProviders = 1000
	maxSettings  = 64
	maxValue     = 4096
)

// file and entry are the structure of a file.
type file struct {
	Providers []entry `yaml:"providers"`
}

type entry struct {
	// Kind is the kind of the cluster: yarn, or exec.
	Kind yamlfile.Scalar `yaml:"kind"`
	// Cluster is the name of the cluster here, as in addresses and in the label cluster: 1 to 128
	// letters, digits, and - _ .
	Cluster yamlfile.Scalar `yaml:"cluster"`
	// Default makes this the cluster of requests that name no cluster of the kind. At most one
	// cluster of a kind can have it. If a kind has only one cluster, that one is the default in any
	// case.
	Default yamlfile.Scalar `yaml:"default"`
	// Settings are the settings listed below, by name.
	Settings map[string]yamlfile.ScalarOrList `yaml:"settings"`
}

// Parse reads a file's content; name is only for errors. The error is an *Error.
func Parse(name string, data []byte, kinds providers.Kinds) ([]*bursarv1.Provider, error) {
	doc, err := yamlfile.Parse(name, data)
	if err != nil {
		return nil, err //nolint:wrapcheck // the package's own
	}
	var f file
	if err := doc.Decode(&f); err != nil {
		return nil, err //nolint:wrapcheck // the package's own
	}
	switch {
	case f.Providers == nil:
		return nil, doc.At("providers", "missing: want a list of providers, or [] for none")
	case len(f.Providers) > maxProviders:
		return nil, doc.At(indexPath(maxProviders), fmt.Sprintf("%d providers: want at most %d", len(f.Providers), maxProviders))
	}
	list := make([]*bursarv1.Provider, len(f.Providers))
	seen := places{clusters: make(map[string]int), defaults: make(map[string]int)}
	for i := range f.Providers {
		p, wrong := f.Providers[i].provider(kinds)
		if wrong == nil {
			wrong = seen.add(i, p)
		}
		if wrong != nil {
			refused := doc.At(indexPath(i)+"."+wrong.field, wrong.reason)
			if wrong.secret {
				refused.HideExcerpt()
			}
			return nil, refused
		}
		list[i] = p
	}
	return list, nil
}

func indexPath(i int) string { return fmt.Sprintf("providers[%d]", i) }

// fieldError is a fault in an entry.
type fieldError struct {
	field, reason string
	// secret: the lines of the file at the fault may contain a secret.
	secret bool
}

// places maps the clusters and defaults to their indexes in the file.
type places struct{ clusters, defaults map[string]int }

func (s *places) add(i int, p *bursarv1.Provider) *fieldError {
	name := p.GetKind() + ":" + p.GetCluster()
	if before, twice := s.clusters[name]; twice {
		return &fieldError{field: "cluster", reason: fmt.Sprintf("%s: already the cluster of %s: want one provider for it", name, indexPath(before))}
	}
	s.clusters[name] = i
	if !p.GetDefault() {
		return nil
	}
	if before, twice := s.defaults[p.GetKind()]; twice {
		return &fieldError{field: "default", reason: fmt.Sprintf("%s is the default of kind %s already: want one", indexPath(before), p.GetKind())}
	}
	s.defaults[p.GetKind()] = i
	return nil
}

// provider converts the entry to the API's type.
func (e *entry) provider(kinds providers.Kinds) (*bursarv1.Provider, *fieldError) {
	if !e.Kind.IsSet() {
		return nil, &fieldError{field: "kind", reason: "missing: want one, such as yarn"}
	}
	kind, err := kinds.Find(e.Kind.String())
	if unknown, ok := errors.AsType[*providers.KindError](err); ok {
		return nil, &fieldError{field: "kind", reason: yamlfile.Want(unknown.Kind, unknown.Want())}
	}
	if !e.Cluster.IsSet() {
		return nil, &fieldError{field: "cluster", reason: "missing: want a name for the cluster"}
	}
	p := &bursarv1.Provider{Kind: e.Kind.String(), Cluster: e.Cluster.String(), Settings: make(map[string]string, len(e.Settings))}
	if !providers.ValidCluster(p.GetCluster()) {
		return nil, &fieldError{field: "cluster", reason: yamlfile.Want(p.GetCluster(), providers.WantCluster)}
	}
	if e.Default.IsSet() {
		var reason string
		if p.Default, reason = e.Default.Bool(); reason != "" {
			return nil, &fieldError{field: "default", reason: reason}
		}
	}
	if len(e.Settings) > maxSettings {
		return nil, &fieldError{field: "settings", reason: fmt.Sprintf("%d settings: want at most %d", len(e.Settings), maxSettings)}
	}
	for _, key := range slices.Sorted(maps.Keys(e.Settings)) {
		value := e.Settings[key]
		switch {
		case !value.IsSet():
			return nil, &fieldError{field: "settings." + key, reason: "has no value: want one, or leave the line out"}
		case len([]rune(value.String())) > maxValue:
			return nil, &fieldError{field: "settings." + key, reason: fmt.Sprintf("too long: want at most %d characters", maxValue)}
		}
		p.Settings[key] = value.String()
	}
	return p, checked(kind, p.GetSettings())
}

// checked runs the kind's check of the settings.
func checked(kind providers.Kind, settings map[string]string) *fieldError {
	err := kind.Check(settings)
	if wrong, ok := errors.AsType[*providers.SettingError](err); ok {
		if _, given := settings[wrong.Setting]; !given {
			return &fieldError{field: "settings." + wrong.Setting, reason: "missing: want " + wrong.Want}
		}
		return &fieldError{field: "settings." + wrong.Setting, reason: yamlfile.Want(wrong.Value, wrong.Want), secret: wrong.Secret()}
	}
	if err != nil {
		return &fieldError{field: "settings", reason: err.Error()}
	}
	return nil
}

// Locate returns the error about a provider that Parse accepted and that was rejected later. field
// is its path; it begins with "providers[N]", where N is the index in Parse's result.
func Locate(name string, data []byte, field, reason string) *Error {
	doc, err := yamlfile.Parse(name, data)
	if err != nil {
		return &Error{File: name, Field: field, Reason: reason}
	}
	return doc.At(field, reason)
}
