package api

import (
	"slices"
	"testing"
)

// TestBufCurl calls over every protocol, with the schema from reflection and from this tree. Its
// exit code is that of gRPC times 8.
func TestBufCurl(t *testing.T) {
	buf := tool(t, "buf")
	const invalid = 3 * 8
	for _, d := range doors(t) {
		t.Run(d.name, func(t *testing.T) {
			call := func(path string, flags ...string) []string {
				if !slices.Contains(flags, "--schema") {
					// A token goes with reflection, too.
					flags = append(slices.Clone(flags), "--reflect-header", "*")
				}
				return slices.Concat([]string{"curl"}, d.buf, flags, []string{d.base + path})
			}
			h2 := []string{"--http2-prior-knowledge"} // TLS agrees on it
			if !d.plain {
				h2 = nil
			}
			procedure, answer := d.read()
			if d.name == stranger {
				prints(t, 16*8, "Bearer", buf, call("/"+procedure, "--schema", "../..")...)
				return
			}
			for _, protocol := range []string{"connect", "grpc", "grpcweb"} {
				for _, schema := range [][]string{nil, {"--schema", "../.."}} {
					flags := slices.Concat(h2, schema, []string{"--protocol", protocol})
					prints(t, 0, answer, buf, call("/"+procedure, flags...)...)
					prints(t, invalid, "memory_bytes", buf, call("/bursar.v1.AllocationService/Allocate", append(flags, "--data", wrong)...)...)
				}
			}
			// HTTP/1.1, where there is no TLS
			for _, protocol := range []string{"connect", "grpcweb"} {
				prints(t, 0, answer, buf, call("/"+procedure, "--schema", "../..", "--protocol", protocol)...)
			}
			prints(t, 0, "SERVING", buf, call("/grpc.health.v1.Health/Check", append(h2, "--data", `{"service":"bursar.v1.AllocationService"}`)...)...)
			prints(t, 0, "bursar.v1.AllocationService", buf, call("", append(h2, "--list-services")...)...)
			begins(t, "{", buf, call("/bursar.v1.AllocationService/Watch", append(h2, "--protocol", "grpc")...)...)
		})
	}
}
