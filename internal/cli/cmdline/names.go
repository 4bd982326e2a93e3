package cmdline

import (
	"errors"

	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// ClusterArg reads KIND:CLUSTER.
func ClusterArg(text string) (kind, cluster string, err error) {
	at, err := resource.ParseQueue(text)
	if err != nil || at.Kind == "" || at.Cluster == "" || at.Path != "" {
		return "", "", failure.Usagef("%q: want KIND:CLUSTER, such as yarn:prod", text)
	}
	return at.Kind, at.Cluster, nil
}

// QueueArg reads KIND, KIND:CLUSTER or KIND:CLUSTER:PATH[@PARTITION]. If there is a path, an empty
// cluster means the default one.
func QueueArg(text string) (resource.Address, error) {
	at, err := resource.ParseQueue(text)
	if wrong, is := errors.AsType[*resource.FieldError](err); is {
		return at, failure.Usagef("%q: want %s", text, wrong.Want)
	}
	return at, nil
}

// SelectorArg reads the selector of a rule.
func SelectorArg(text string) (map[string]string, error) {
	selector, err := label.ParseSelector(text)
	if err != nil {
		return nil, &failure.UsageError{Err: err}
	}
	if user, named := selector.Labels().Get(label.User); named && user == "" {
		return nil, failure.Usagef("selector %s: user is empty, as $USER is if it is not set: want the name of a user, or user=* for each", render.Shown(text))
	}
	return selector.Labels().Map(), nil
}
