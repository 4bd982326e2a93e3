package coordinator

import (
	"fmt"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/internal/yamlfile"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/providers/providerfile"
)

// readProviders reads the file of providers; without a path there are none. The error names the
// file, and the line if it can.
func readProviders(path string, kinds providers.Kinds) ([]ledger.ProviderRecord, error) {
	if path == "" {
		return nil, nil
	}
	data, err := regularfile.Read(path, yamlfile.MaxBytes)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	list, err := providerfile.Parse(path, data, kinds)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says where
	}
	records := make([]ledger.ProviderRecord, 0, len(list))
	for _, p := range list {
		record := providerRecord(p)
		record.Source = ledger.SourceFilePrefix + path
		records = append(records, record)
	}
	return records, nil
}

// checkProviders reads the file of providers, and checks the files of this machine that their
// settings name. The errors are those of readProviders.
func checkProviders(path string, kinds providers.Kinds) error {
	records, err := readProviders(path, kinds)
	if err != nil {
		return err
	}
	for i := range records {
		kind, err := kinds.Find(records[i].Kind)
		if local, is := kind.(providers.Local); err == nil && is {
			err = local.CheckHere(records[i].Settings)
		}
		if err != nil {
			return fmt.Errorf("%s: provider %s: %w", path, records[i].ClusterName, err)
		}
	}
	return nil
}

// providerRecord converts a provider to the ledger's form.
func providerRecord(p *bursarv1.Provider) ledger.ProviderRecord {
	return ledger.ProviderRecord{
		ClusterName: ledger.ClusterName{Kind: p.GetKind(), Cluster: p.GetCluster()},
		Default:     p.GetDefault(), Settings: p.GetSettings(), Source: p.GetSource(),
	}
}
