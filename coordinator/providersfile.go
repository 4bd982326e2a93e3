package coordinator

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/providers/providerfile"
	"github.com/bursar/bursar/yamlfile"
)

// providersFile is the file of providers, as it was at the start.
type providersFile struct {
	path    string
	data    []byte
	records []ledger.ProviderRecord
}

// readProviders reads the file of providers; without a path there are none. The error names the file, and where it can the line.
func readProviders(path string, kinds providers.Kinds) (*providersFile, error) {
	f := &providersFile{path: path}
	if path == "" {
		return f, nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err //nolint:wrapcheck // it names the file
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: want a regular file", path)
	case info.Size() > yamlfile.MaxBytes:
		return nil, fmt.Errorf("%s: %d bytes: want at most %d", path, info.Size(), yamlfile.MaxBytes)
	}
	if f.data, err = os.ReadFile(path); err != nil { //nolint:gosec // the operator says which
		return nil, err //nolint:wrapcheck // it names the file
	}
	list, err := providerfile.Parse(path, f.data, kinds)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says where
	}
	for _, p := range list {
		record := providerRecord(p)
		record.Source = ledger.SourceFilePrefix + path
		f.records = append(f.records, record)
	}
	return f, nil
}

// providerRecord is a provider as the ledger has it.
func providerRecord(p *bursarv1.Provider) ledger.ProviderRecord {
	return ledger.ProviderRecord{
		ClusterName: ledger.ClusterName{Kind: p.GetKind(), Cluster: p.GetCluster()},
		Default:     p.GetDefault(), Settings: p.GetSettings(), Source: p.GetSource(),
	}
}

// blame finds the line of the provider that a leadership was refused for. An error that is about none of the file's stays as it is.
func (f *providersFile) blame(err error) error {
	refused, ok := errors.AsType[*ledger.FieldError](err)
	if !ok {
		return err
	}
	for i, record := range f.records {
		field := fmt.Sprintf("providers[%d].", i)
		switch {
		case refused.Field == "provider.cluster" && refused.Value == record.String():
			field += "cluster"
		case refused.Field == "provider.default" && record.Default && strings.HasPrefix(refused.Value, record.Kind+":"):
			field += "default" // the other one may be the one that was refused
		default:
			continue
		}
		return providerfile.Locate(f.path, f.data, field, fmt.Sprintf("%q: want %s", refused.Value, refused.Want))
	}
	return err
}
