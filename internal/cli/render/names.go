package render

import (
	"fmt"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// NamesText writes names as cmdline.NamesFlag reads them.
func NamesText(names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = spelling.Name(name, ",")
	}
	return strings.Join(texts, ", ")
}

// QuotaLine is a rule in one line.
func QuotaLine(q *bursarv1.Quota) string {
	parts := []string{SelectorText(q.GetSelector())}
	if limit := ResourceText(q.GetLimit()); limit != "" {
		parts = append(parts, "limit "+limit)
	}
	if guaranteed := ResourceText(q.GetGuaranteed()); guaranteed != "" {
		parts = append(parts, "guaranteed "+guaranteed)
	}
	if q.GetWeight() > 1 {
		parts = append(parts, fmt.Sprintf("weight %d", q.GetWeight()))
	}
	if rounding := NormalizationText(q.GetNormalization()); rounding != "" {
		parts = append(parts, rounding)
	}
	return strings.Join(parts, "  ")
}

// ClusterText writes KIND:CLUSTER as the command line reads it.
func ClusterText(kind, cluster string) string { return kind + ":" + spelling.Name(cluster, ":,@") }

// ProviderName writes the cluster of a provider as KIND:CLUSTER.
func ProviderName(p *bursarv1.Provider) string { return ClusterText(p.GetKind(), p.GetCluster()) }

// NormalizationText writes "at least memory=1GiB, in steps of memory=512MiB, at most
// memory=32GiB".
func NormalizationText(n *bursarv1.Normalization) string {
	text := ""
	for _, part := range []struct {
		name string
		r    *bursarv1.Resource
	}{{"at least", n.GetMinimum()}, {"steps of", n.GetIncrement()}, {"at most", n.GetMaximum()}} {
		if size := ResourceText(part.r); size != "" {
			if text != "" {
				text += "; "
			}
			text += fmt.Sprintf("%s %s", part.name, size)
		}
	}
	return text
}

// ProviderState is "known" for STATE_KNOWN.
func ProviderState(p *bursarv1.Provider) string {
	return strings.ToLower(strings.TrimPrefix(p.GetHealth().GetState().String(), "STATE_"))
}
