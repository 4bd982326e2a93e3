// Package wire is the protocol between test/systemd and its program inside a machine: one JSON
// object per line in both directions, over a stream that a reset of the machine can cut anywhere.
package wire

import "time"

// Hello is a machine's first message, repeated after every boot. Earlier requests get no answer.
type Hello struct {
	// Session identifies this start of the program, which ignores requests with another session.
	Session string `json:"session"`
	Boot    string `json:"boot"` // the kernel's boot id
}

// Request runs one command, or ends a running one.
type Request struct {
	Session string `json:"session"`
	ID      uint64 `json:"id"`
	// Cancel ends the command with this id, and all processes of its session.
	Cancel      bool     `json:"cancel,omitempty"`
	Arguments   []string `json:"arguments,omitempty"`
	User        string   `json:"user,omitempty"` // default: root
	Environment []string `json:"environment,omitempty"`
	Input       []byte   `json:"input,omitempty"`
}

// Answer is the result of a command.
type Answer struct {
	ID     uint64 `json:"id"`
	Output []byte `json:"output,omitempty"`
	Errors []byte `json:"errors,omitempty"`
	// Code is as in a shell: 128 plus the signal's number if a signal ended the command.
	Code    int           `json:"code"`
	Failure string        `json:"failure,omitempty"`
	Took    time.Duration `json:"took"`
}

// Line is any message from a machine.
type Line struct {
	Hello  *Hello  `json:"hello,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
}
