package requests

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// inventory is a coordinator with the hosts vm-1 and vm-10.
type inventory struct {
	bursarv1connect.UnimplementedHostServiceHandler
}

func (inventory) List(_ context.Context, req *bursarv1.HostServiceListRequest) (*bursarv1.HostServiceListResponse, error) {
	for _, id := range []string{"vm-1", "vm-10"} {
		if strings.HasPrefix(id, req.GetIdPrefix()) {
			return &bursarv1.HostServiceListResponse{Hosts: []*bursarv1.Host{{Id: id}}}, nil
		}
	}
	return &bursarv1.HostServiceListResponse{}, nil
}

// What a word is taken for is said if it is hardly meant so.
func TestAWordThatIsTakenForSomethingElseIsTold(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewHostServiceHandler(inventory{}))
	served := httptest.NewServer(mux)
	defer served.Close()
	cl, err := client.New(served.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--avoid", "zone"}, "--avoid zone: is taken as a host, and there is none"},
		{[]string{"--avoid", "vm"}, "--avoid vm: is taken as a host, and there is none"},
		{[]string{"--avoid", "vm-1"}, ""},
		{[]string{"--avoid", "zone=a"}, ""},
		{[]string{"--prefer", "vm-1"}, "--prefer vm-1: is taken as a label"},
		{[]string{"--require", "vm-10"}, "--require vm-10: is taken as a label"},
		{[]string{"--require", "vm-1"}, "--require vm-1: is taken as a label"},
		{[]string{"--prefer", "gpu"}, ""},
		{[]string{"--prefer", "!vm-1"}, ""},
	} {
		cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, Run: func(*cobra.Command, []string) {}}
		f := AddFlags(cmd)
		AddPlaceFlags(cmd, f)
		cmd.SetArgs(test.args)
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		doubts := strings.Join(f.PlaceDoubts(t.Context(), cl), "; ")
		if test.want == "" && doubts != "" || !strings.HasPrefix(doubts, test.want) {
			t.Errorf("%q: %q; want %q", test.args, doubts, test.want)
		}
	}
}
