package exec

import (
	"fmt"
	"strconv"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/providers"
)

// Version is the version of what a command prints.
const Version = 1

// Bounds of what is read.
const (
	maxQueues       = 10_000
	maxApplications = 100_000
	maxText         = 256 // characters of a text that is only shown
	maxID           = 128 // characters of an application's id, as in the contract
	maxShown        = 80  // bytes of a value in an error
)

// Answer is what a command printed.
type Answer struct {
	// Server, Incarnation and Untrusted are those of a providers.Snapshot.
	Server, Incarnation, Untrusted string
	// Queues are in the order in which they were printed.
	Queues []providers.Queue
	// Unaddressable are the first queues of the list that have no queue above them there, and
	// MoreUnaddressable is how many there are in addition.
	Unaddressable     []providers.Unaddressable
	MoreUnaddressable int
	// Applications are those that were listed; ListsApplications says that there was a list, so
	// that what is not in it is not there.
	Applications      []providers.Application
	ListsApplications bool
}

// AnswerError refuses what a command printed.
type AnswerError struct {
	// Field is where it is wrong, such as "queues[3].limit.memory"; empty: as a whole.
	Field string
	// Value is what stands there, as JSON, cut; empty: nothing does.
	Value string
	// Want says what would be right, to be read after "want ".
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

// refuse refuses a value, which is written as it is; texts come from quoted.
func refuse(field, value, want string) error {
	return &AnswerError{Field: field, Value: value, Want: want}
}

// missing says that there is no value.
func missing(field, want string) error { return &AnswerError{Field: field, Want: want} }

// quoted is a text of an answer in an error: without what a terminal would act on, and cut.
func quoted(text string) string {
	return spelling.Cut(strconv.Quote(spelling.Cut(text, maxShown)), 2*maxShown)
}
