package coordinator

import (
	"fmt"
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/internal/yamlfile"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/providers/providerfile"
)

// readProviders reads the file of providers; without a path there are none. The error names the file, and where it can the line.
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

// providerRecord is a provider as the ledger has it.
func providerRecord(p *bursarv1.Provider) ledger.ProviderRecord {
	return ledger.ProviderRecord{
		ClusterName: ledger.ClusterName{Kind: p.GetKind(), Cluster: p.GetCluster()},
		Default:     p.GetDefault(), Settings: p.GetSettings(), Source: p.GetSource(),
	}
}

// withFile puts the providers of the file next to those that are stored, and says what it hides of these: a cluster that the file has is the
// file's, and so is the default of a kind where the file has one. What is hidden stays stored, and is there again once the file does not
// have it: another coordinator, whose file does not, may have taken it in. To refuse to lead for it would leave everybody without a leader.
func withFile(stored, file []ledger.ProviderRecord) (all []ledger.ProviderRecord, hidden []string) {
	all = slices.Clone(file)
	for _, record := range stored {
		of := func(match func(ledger.ProviderRecord) bool) int { return slices.IndexFunc(file, match) }
		if i := of(func(f ledger.ProviderRecord) bool { return f.ClusterName == record.ClusterName }); i >= 0 {
			hidden = append(hidden, fmt.Sprintf("provider %s is that of %s; the one that was set over the API is not used", record, file[i].Source))
			continue
		}
		if i := of(func(f ledger.ProviderRecord) bool { return f.Kind == record.Kind && f.Default }); i >= 0 && record.Default {
			hidden = append(hidden, fmt.Sprintf("the default is %s, of %s, and not %s, which was set over the API", file[i].ClusterName, file[i].Source, record))
			record.Default = false
		}
		all = append(all, record)
	}
	return all, hidden
}
