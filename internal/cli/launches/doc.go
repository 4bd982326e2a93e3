// Package launches has the flags of the commands that have an engine started on another host, and
// makes the request of EngineService.Start from them. It reads local files and the caller's
// environment, and makes no call.
package launches
