package check

import (
	"cmp"
	"slices"
	"strings"
)

// Finding is one thing that is, or would be, different on Bursar.
type Finding struct {
	// Area is what it is about: "database", "ecm", "engine", "limit", "tenant", "queue" or
	// "setting".
	Area string `json:"area"`
	// Subject is an ECM, an engine, a selector of users or the name of a setting.
	Subject string `json:"subject"`
	// Now is how it is in Linkis, Bursar how it is on Bursar.
	Now    string `json:"now"`
	Bursar string `json:"bursar"`
	// Attention says that somebody has to do or decide something before the change.
	Attention bool `json:"attention"`
}

// Report is the answer.
type Report struct {
	Findings []Finding `json:"findings"`
	// Attention counts those that need it.
	Attention int `json:"attention"`
}

// NewReport sorts findings: by area, those that need attention first.
func NewReport(findings []Finding) *Report {
	areas := []string{"database", "ecm", "engine", "limit", "tenant", "queue", "setting"}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(areas, a.Area), slices.Index(areas, b.Area)),
			cmp.Compare(first(b.Attention), first(a.Attention)),
			cmp.Compare(a.Subject, b.Subject))
	})
	r := &Report{Findings: slices.Concat([]Finding{}, findings)}
	for i, f := range findings {
		r.Attention += first(f.Attention)
		r.Findings[i].Subject, r.Findings[i].Now, r.Findings[i].Bursar = cut(f.Subject), cut(f.Now), cut(f.Bursar)
	}
	return r
}

const maxText = 500

// cut shortens a text: values of a database can have any length.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

func first(attention bool) int {
	if attention {
		return 1
	}
	return 0
}
