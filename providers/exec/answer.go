package exec

import (
	"fmt"
	"strconv"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/providers"
)

// Version is the version of the command's output format.
const Version = 1

// Limits on the output of a command.
const (
	maxQueues       = 10_000
	maxApplications = 100_000
	maxText         = 256 // characters of a text that is only displayed
	maxID           = 128 // characters of an application's id, as in the API
	maxShown        = 80  // bytes of a value in an error
)

// Answer is the decoded output of a command.
type Answer struct {
	// Server, Incarnation and Untrusted have the meaning of the same fields of providers.Snapshot.
	Server, Incarnation, Untrusted string
	// Queues are in the order of the output.
	Queues []providers.Queue
	// Unaddressable lists the first queues whose parent queue is missing from the output.
	// MoreUnaddressable is the number of further ones.
	Unaddressable     []providers.Unaddressable
	MoreUnaddressable int
	// Applications are the listed applications. ListsApplications says that the output has a list;
	// then an application that is not in the list does not exist.
	Applications      []providers.Application
	ListsApplications bool
}

// AnswerError rejects the output of a command.
type AnswerError struct {
	// Field is the path of the wrong field, such as "queues[3].limit.memory"; empty for the whole
	// output.
	Field string
	// Value is the wrong value as JSON, truncated; empty if the field is missing.
	Value string
	// Want describes a valid value, as the text after "want ".
	Want string
}

func (e *AnswerError) Error() string {
	field := e.Field
	if field == "" {
		field = "standard output"
	}
	if e.Value == "" {
		return fmt.Sprintf("%s: missing: want %s", field, e.Want)
	}
	return fmt.Sprintf("%s: %s: want %s", field, e.Value, e.Want)
}

// refuse makes an error about a value. It does not escape the value; pass a text through quoted.
func refuse(field, value, want string) error {
	return &AnswerError{Field: field, Value: value, Want: want}
}

// missing makes an error about an absent value.
func missing(field, want string) error { return &AnswerError{Field: field, Want: want} }

// quoted formats a text of the output for an error: quoted, without terminal control characters,
// and truncated.
func quoted(text string) string {
	return spelling.Cut(strconv.Quote(spelling.Cut(text, maxShown)), 2*maxShown)
}
