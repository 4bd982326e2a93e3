package forward

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/baseline"
)

func TestEveryProcedureCanBePassedOn(t *testing.T) {
	unary, streams := unaryProcedures(), streamProcedures()
	before, err := baseline.Files("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []protoreflect.FileDescriptor{
		bursarv1.File_bursar_v1_allocation_proto, bursarv1.File_bursar_v1_host_proto, bursarv1.File_bursar_v1_quota_proto,
		bursarv1.File_bursar_v1_queue_proto, bursarv1.File_bursar_v1_cluster_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				method := methods.Get(j)
				procedure := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
				if isOwn(procedure) {
					if unary[procedure] != nil || streams[procedure] != nil {
						t.Errorf("%s is passed on, and served by each coordinator", procedure)
					}
					continue
				}
				if _, ok := unary[procedure]; ok == method.IsStreamingServer() {
					t.Errorf("%s: among the calls with one answer: %v", procedure, ok)
				}
				if _, ok := streams[procedure]; ok != method.IsStreamingServer() {
					t.Errorf("%s: among the streams: %v", procedure, ok)
				}
				if _, err := before.FindDescriptorByName(method.FullName()); isNew(procedure) != errors.Is(err, protoregistry.NotFound) {
					t.Errorf("%s is new: %v; in the contract's baseline: %v", procedure, isNew(procedure), err)
				}
			}
		}
	}
}
