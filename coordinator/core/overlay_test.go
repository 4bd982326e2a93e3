package core

import (
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
)

// A row of the store cannot say that it is the operator's.
func TestAStoredProviderIsOfNoFile(t *testing.T) {
	row := ledger.ProviderRecord{ClusterName: ledger.ClusterName{Kind: "exec", Cluster: "a"}, Source: ledger.SourceFilePrefix + "/etc/bursar/providers.yaml"}
	all, hidden := WithFile([]ledger.ProviderRecord{row}, nil)
	if len(all) != 1 || all[0].Source != ledger.SourceAPI || len(hidden) > 0 {
		t.Errorf("%+v, %q", all, hidden)
	}
}
