package coordinator

import (
	"fmt"
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// mostRuleDoubts bounds the doubts about rules in one answer.
const mostRuleDoubts = 20

// checkRule refuses a rule that can only be a mistake, if it is set over the API and not forced.
// Rules of files, and rules that were stored earlier, stay in force: no rule keeps a coordinator
// from leading. path is the prefix of the field in the error.
func checkRule(q *ledger.Quota, path string, labels *label.Preprocessor, forced bool) error {
	if forced {
		return nil
	}
	for _, key := range q.Selector.Scope().Keys() {
		if labels.Restricts(key) {
			return wire.FieldError(path+"selector", q.Selector.Text(), labels.WantKnown(key)+"; force (--force) sets it all the same")
		}
	}
	for _, wrong := range aboveLimit(q) {
		return wire.FieldError(path+"normalization.minimum."+wrong.dimension, resource.FormatQuantity(wrong.dimension, wrong.minimum),
			"at most the limit of the rule, "+resource.FormatQuantity(wrong.dimension, wrong.limit)+": each request is raised to the minimum, so none could ever fit; force (--force) sets it all the same")
	}
	return nil
}

// unfitting is a minimum above the limit of its rule.
type unfitting struct {
	dimension      string
	minimum, limit int64
}

// aboveLimit returns the minimums of a rule's normalization that exceed the rule's limit, so that
// no request fits. A limit of zero is no mistake: it stops grants.
func aboveLimit(q *ledger.Quota) (list []unfitting) {
	if q.Normalization == nil {
		return nil
	}
	for dimension, minimum := range q.Normalization.Minimum.All() {
		if limit, limited := q.Limit.Get(dimension); limited && limit > 0 && minimum > limit {
			list = append(list, unfitting{dimension, minimum, limit})
		}
	}
	return list
}

// ruleDoubts lists likely mistakes in a rule: a minimum above the limit, a key that is nearly a
// known one, and a "*" whose requests without the label share one account.
func ruleDoubts(q *ledger.Quota, labels *label.Preprocessor) (list []string) {
	name := "rule " + q.Selector.Text() + ": "
	for _, wrong := range aboveLimit(q) {
		list = append(list, fmt.Sprintf("%snormalization raises each request to %s of %s, and the limit is %s: no request fits", name,
			resource.FormatQuantity(wrong.dimension, wrong.minimum), wrong.dimension, resource.FormatQuantity(wrong.dimension, wrong.limit)))
	}
	known := labels.Known()
	for _, key := range q.Selector.Scope().Keys() {
		if near := label.Near(key, known); near != "" {
			list = append(list, fmt.Sprintf("%sno label rule knows the key %s: did you mean %s?", name, key, near))
		}
	}
	if key := sharedKey(q, labels); key != "" {
		list = append(list, fmt.Sprintf("%sall requests without the label %s share one account of it, because * matches a missing label, too: "+
			"a label rule of the coordinator can require, default or derive %s", name, key, key))
	}
	return list
}

// sharedKey returns a "*" key of a rule for which no label rule supplies a value, if the requests
// without the label may be any user's. It is empty if there is none.
func sharedKey(q *ledger.Quota, labels *label.Preprocessor) string {
	scope := q.Selector.Scope().Keys()
	if slices.Contains(scope, label.User) {
		return "" // each user has an account
	}
	shared := ""
	for _, key := range scope {
		switch {
		case q.Selector.Labels().Value(key) != label.Any: // requests have to name it
			return ""
		case !labels.Gives(key):
			shared = key
		}
	}
	return shared
}
