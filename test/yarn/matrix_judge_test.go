package yarn_test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// judge prints the matrix and checks it: a grant may fail to start only after a foreign submission
// between the readings, and a refusal may start only with an excuse.
func (m *matrix) judge() {
	m.t.Helper()
	counts := make(map[[2]bool]int) // by granted, started
	var remarks []string
	var took []time.Duration
	masters := 0
	for _, one := range m.all {
		granted := one.refused == nil
		counts[[2]bool{granted, one.started}]++
		if one.containers == 0 {
			masters++
		}
		switch {
		case granted && one.started:
			took = append(took, one.took)
		case granted && one.between == "":
			m.t.Errorf("granted, and not started: %v: YARN says %s", one, one.said)
		case granted:
			remarks = append(remarks, fmt.Sprintf("granted, and not started: %v: somebody's %s came between the readings; YARN says %s", one, one.between, one.said))
		case one.started && one.excuse == "":
			m.t.Errorf("refused, and started: %v: %v", one, one.refused)
		case one.started:
			remarks = append(remarks, fmt.Sprintf("refused, and started: %v: %s", one, one.excuse))
		}
	}
	slices.Sort(took)
	if len(took) == 0 || counts[[2]bool{false, false}] == 0 {
		m.t.Fatalf("nothing was granted and started, or nothing refused: %v", counts)
	}
	m.t.Logf("%d submissions of %d users, %d of them a master alone\n"+
		"          started  not started\n"+
		"granted  %8d %12d   started within %v, half of them within %v\n"+
		"refused  %8d %12d   watched for %v\n%s",
		len(m.all), len(matrixUsers), masters,
		counts[[2]bool{true, true}], counts[[2]bool{true, false}], took[len(took)-1].Round(time.Millisecond), took[len(took)/2].Round(time.Millisecond),
		counts[[2]bool{false, true}], counts[[2]bool{false, false}], m.patience, strings.Join(remarks, "\n"))
}
