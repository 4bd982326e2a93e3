package failure

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
)

// Each does something to several things, one after the other, and once to one that is named twice.
// If one fails it says so and goes on with the next. The code is that of the first failure. If
// nobody answers it does not try the others: it says which those are.
func (r *Reporter) Each(names []string, do func(name string) error) error {
	if names = withoutRepeats(names); len(names) == 1 {
		return do(names[0])
	}
	code := ExitOK
	for i, name := range names {
		err := do(name)
		if err == nil {
			continue
		}
		r.Report(about(name, err))
		if code == ExitOK {
			code = ExitCode(err)
		}
		if rest := names[i+1:]; len(rest) > 0 && client.Unavailable(err) && !connect.IsWireError(err) {
			r.Report(&ExitError{ExitCode(err), fmt.Errorf("not tried: %s", strings.Join(rest, ", "))})
			break
		}
	}
	if code != ExitOK {
		return &ExitError{Code: code}
	}
	return nil
}

// EachID is each for names that are looked up, such as the beginnings of ids. It looks up all of
// them before it does anything: a change may make a name mean something else. If one of several
// means nothing, or several things, it does nothing.
func (r *Reporter) EachID(names []string, resolve func(name string) (id string, err error), do func(id string) error) error {
	var ids []string
	err := r.Each(names, func(name string) error {
		id, err := resolve(name)
		ids = append(ids, id)
		return err
	})
	switch exit, told := errors.AsType[*ExitError](err); {
	case told && exit.Err == nil:
		return &ExitError{exit.Code, errors.New("nothing was done")}
	case err != nil:
		return err
	}
	return r.Each(ids, do)
}

// withoutRepeats leaves out the second and later occurrences of a name.
func withoutRepeats(names []string) (once []string) {
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once
}

// about names the thing that an error is about, unless the error does so itself.
func about(name string, err error) error {
	_, missing := errors.AsType[*NoSuchError](err)
	_, vague := errors.AsType[*AmbiguousError](err)
	if missing || vague {
		return err
	}
	return &aboutError{name, err}
}
