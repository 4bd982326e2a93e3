package agent_test

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// A caller that compresses requests is told what to do, in each protocol, and gets no empty list.
func TestCompressedRequestsAreRefusedWithWhatIsWanted(t *testing.T) {
	s := run(t)
	for name, options := range map[string][]connect.ClientOption{
		"Connect": nil, "Connect with JSON": {connect.WithProtoJSON()}, "gRPC-Web": {connect.WithGRPCWeb()},
	} {
		client := bursarv1connect.NewAllocationServiceClient(s.http, "http://agent", append(options, connect.WithSendGzip())...)
		_, err := client.Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: strings.Repeat("a", 100)})
		if connect.CodeOf(err) != connect.CodeUnimplemented || !strings.Contains(err.Error(), `compression "gzip"`) ||
			!strings.Contains(err.Error(), "want an uncompressed request") {
			t.Errorf("%s: %v", name, err)
		}
	}
	query := bursarv1connect.AllocationServiceGetProcedure + "?connect=v1&encoding=json&compression=gzip&base64=1&message=H4sI"
	if _, text := s.get(s.http, query); !strings.Contains(text, "want an uncompressed request") {
		t.Errorf("GET: %s", text)
	}
}
