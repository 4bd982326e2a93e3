// Package logs answers requests for the output of a host's engines. It knows where the output is,
// also after restarts of the agent, and opens it as the engine's user (package output). It does not
// decide who may read: its callers do. Any goroutine may use a Logs.
package logs
