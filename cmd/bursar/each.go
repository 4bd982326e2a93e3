package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
)

// aboutError says which of several things an error is about.
type aboutError struct {
	name string
	err  error
}

func (e *aboutError) Error() string { return e.name + ": " + e.err.Error() }

func (e *aboutError) Unwrap() error { return e.err }

// each does something to several things, one after the other, and once to one that is named twice.
// If one fails it says so and goes on with the next. The code is that of the first failure. If
// nobody answers it does not try the others: it says which those are.
func (r *reporter) each(names []string, do func(name string) error) error {
	if names = withoutRepeats(names); len(names) == 1 {
		return do(names[0])
	}
	code := exitOK
	for i, name := range names {
		err := do(name)
		if err == nil {
			continue
		}
		r.report(about(name, err))
		if code == exitOK {
			code = exitCode(err)
		}
		if rest := names[i+1:]; len(rest) > 0 && client.Unavailable(err) && !connect.IsWireError(err) {
			r.report(&exitError{exitCode(err), fmt.Errorf("not tried: %s", strings.Join(rest, ", "))})
			break
		}
	}
	if code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// eachID is each for names that are looked up, such as the beginnings of ids. It looks up all of
// them before it does anything: what is done may make a name mean something else. If one of several
// means nothing, or several things, it does nothing.
func (r *reporter) eachID(names []string, resolve func(name string) (id string, err error), do func(id string) error) error {
	var ids []string
	err := r.each(names, func(name string) error {
		id, err := resolve(name)
		ids = append(ids, id)
		return err
	})
	switch exit, told := errors.AsType[*exitError](err); {
	case told && exit.err == nil:
		return &exitError{exit.code, errors.New("nothing was done")}
	case err != nil:
		return err
	}
	return r.each(ids, do)
}

// withoutRepeats leaves out what is in a list a second time.
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
	_, missing := errors.AsType[*noSuchError](err)
	_, vague := errors.AsType[*ambiguousError](err)
	if missing || vague {
		return err
	}
	return &aboutError{name, err}
}

// lookAgain is how often a command that waits for an end looks whether it has come.
const lookAgain = 250 * time.Millisecond

// waitFor looks until something has ended, or until the context has.
func waitFor(ctx context.Context, ended func() (bool, error)) error {
	pause := time.NewTicker(lookAgain)
	defer pause.Stop()
	for {
		if done, err := ended(); done || err != nil {
			return err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
}
