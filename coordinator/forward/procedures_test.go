package forward

import (
	"errors"
	"os"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestEveryProcedureCanBePassedOn(t *testing.T) {
	unary, streams := unaryProcedures(), streamProcedures()
	before := baseline(t)
	for _, file := range []protoreflect.FileDescriptor{
		bursarv1.File_bursar_v1_allocation_proto, bursarv1.File_bursar_v1_host_proto, bursarv1.File_bursar_v1_quota_proto,
		bursarv1.File_bursar_v1_queue_proto, bursarv1.File_bursar_v1_cluster_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				method := methods.Get(j)
				procedure := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
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

// baseline is the contract of the version before.
func baseline(t *testing.T) *protoregistry.Files {
	t.Helper()
	encoded, err := os.ReadFile("../../proto/baseline.binpb")
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(encoded, &set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	return files
}
