package socket

import (
	"cmp"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
)

// compression is how a call says that its messages are compressed, in any of the protocols; empty:
// it does not.
func compression(r *http.Request) string {
	name := cmp.Or(r.Header.Get("Content-Encoding"), r.Header.Get("Connect-Content-Encoding"), r.Header.Get("Grpc-Encoding"))
	if name == "" && r.URL.RawQuery != "" {
		name = r.URL.Query().Get("compression")
	}
	if name == "identity" {
		return ""
	}
	return name
}

// refuseCompressed answers a call whose messages are compressed, which the library would refuse
// with an empty list of what it supports. It reports whether it was one.
func refuseCompressed(w http.ResponseWriter, r *http.Request, name string) bool {
	writer := connect.NewErrorWriter()
	if !writer.IsSupported(r) {
		return false
	}
	err := connect.NewError(connect.CodeUnimplemented, fmt.Errorf("compression %q: the agent reads none: want an uncompressed request", name))
	_ = writer.Write(w, r, err) // the caller has gone
	return true
}
