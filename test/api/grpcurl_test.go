package api

import (
	"slices"
	"testing"
)

// TestGRPCurl calls with the schema from reflection. Its exit code is that of gRPC, and 64 more.
func TestGRPCurl(t *testing.T) {
	grpcurl := tool(t, "grpcurl")
	const invalid = 64 + 3
	for _, d := range doors(t) {
		t.Run(d.name, func(t *testing.T) {
			call := func(flags []string, what ...string) []string {
				return slices.Concat(d.grpcurl, flags, []string{d.address}, what)
			}
			procedure, answer := d.read()
			if d.name == stranger {
				prints(t, 1, "Unauthenticated", grpcurl, call(nil, "list")...)
				return
			}
			prints(t, 0, "bursar.v1.AllocationService", grpcurl, call(nil, "list")...)
			prints(t, 0, "rpc Allocate", grpcurl, call(nil, "describe", "bursar.v1.AllocationService")...)
			prints(t, 0, answer, grpcurl, call(nil, procedure)...)
			prints(t, invalid, "memory_bytes", grpcurl, call([]string{"-d", wrong}, "bursar.v1.AllocationService/Allocate")...)
			prints(t, 0, "SERVING", grpcurl, call([]string{"-d", `{"service":"bursar.v1.AllocationService"}`}, "grpc.health.v1.Health/Check")...)
			begins(t, "{", grpcurl, call(nil, "bursar.v1.AllocationService/Watch")...)
		})
	}
}
