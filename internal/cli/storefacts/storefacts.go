package storefacts

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/opener"
	"github.com/bursar/bursar/internal/cli/render"
)

// Variable names the store of a coordinator, as its configuration does.
const Variable = "BURSAR_COORDINATOR_STORE"

// storeFacts are the facts of a store as JSON.
type storeFacts struct {
	Store    string `json:"store"`
	StoreID  string `json:"storeId"`
	Cluster  string `json:"cluster,omitempty"`
	Epoch    uint64 `json:"epoch,string"`
	Sequence uint64 `json:"sequence,string"`
	LastID   string `json:"lastId,omitempty"`
	Schema   int64  `json:"schema"`
}

// Print prints the facts that a store has about itself.
func Print(out *render.Printer, where string, meta store.Meta) error {
	facts := storeFacts{
		Store: opener.Name(where), StoreID: meta.StoreID, Cluster: meta.Cluster, Epoch: meta.Epoch, Sequence: meta.Sequence,
		Schema: meta.Schema,
	}
	if meta.LastID != 0 {
		facts.LastID = meta.LastID.String()
	}
	if !out.IsJSON() {
		out.Facts("store", facts.Store, "id", facts.StoreID, "cluster", facts.Cluster, "epoch", strconv.FormatUint(facts.Epoch, 10),
			"sequence", strconv.FormatUint(facts.Sequence, 10), "last allocation", facts.LastID,
			"schema", strconv.FormatInt(facts.Schema, 10))
		return nil
	}
	text, err := json.MarshalIndent(facts, "", "  ")
	if err != nil {
		return fmt.Errorf("marshal: %w", err)
	}
	out.Printf("%s\n", text)
	return nil
}
