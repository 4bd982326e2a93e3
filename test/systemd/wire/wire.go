// Package wire is the protocol between test/systemd and its program inside a machine: one JSON
// object a line, both ways, over a stream that may break off anywhere when the machine is reset.
package wire

import "time"

// Hello is what a machine says first, and says again after every boot. Nothing that was asked
// before it will be answered.
type Hello struct {
	// Session names this start of the program, which takes no request for another one.
	Session string `json:"session"`
	Boot    string `json:"boot"` // the kernel's boot id
}

// Request asks for one command, or for the end of one that runs.
type Request struct {
	Session string `json:"session"`
	ID      uint64 `json:"id"`
	// Cancel ends the command of this id, with all that it started in its session.
	Cancel      bool     `json:"cancel,omitempty"`
	Arguments   []string `json:"arguments,omitempty"`
	User        string   `json:"user,omitempty"` // default: root
	Environment []string `json:"environment,omitempty"`
	Input       []byte   `json:"input,omitempty"`
}

// Answer says how a command ended.
type Answer struct {
	ID     uint64 `json:"id"`
	Output []byte `json:"output,omitempty"`
	Errors []byte `json:"errors,omitempty"`
	// Code is as in a shell: 128 and the signal's number if a signal ended it.
	Code    int           `json:"code"`
	Failure string        `json:"failure,omitempty"`
	Took    time.Duration `json:"took"`
}

// Line is anything that comes from a machine.
type Line struct {
	Hello  *Hello  `json:"hello,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
}
