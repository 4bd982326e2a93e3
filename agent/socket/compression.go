package socket

import (
	"cmp"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
)

// compression returns the compression of a call's messages, in any of the protocols; empty if there
// is none.
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

// refuseCompressed refuses a call with compressed messages, which the library would refuse with an
// empty list of supported compressions. It reports whether it has answered.
func refuseCompressed(w http.ResponseWriter, r *http.Request, name string) bool {
	writer := connect.NewErrorWriter()
	if !writer.IsSupported(r) {
		return false
	}
	err := connect.NewError(connect.CodeUnimplemented, fmt.Errorf("compression %q: the agent reads none: want an uncompressed request", name))
	_ = writer.Write(w, r, err) // it fails if the caller has gone
	return true
}
