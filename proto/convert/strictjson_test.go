package convert_test

import (
	"strings"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

func TestStrictJSONRefusesFieldsThatTheContractDoesNotKnow(t *testing.T) {
	for _, text := range []string{`{"resource":{"memory":"4GiB"}}`, `{"waitt":"30s"}`, ``} {
		if err := (convert.StrictJSON{}).Unmarshal([]byte(text), &bursarv1.AllocateRequest{}); err == nil {
			t.Errorf("%s is accepted", text)
		} else if strings.Contains(text, "waitt") && !strings.Contains(err.Error(), "waitt") {
			t.Errorf("%v does not name the field", err)
		}
	}
	request := &bursarv1.AllocateRequest{}
	if err := (convert.StrictJSON{}).Unmarshal([]byte(`{"resource":{"memoryBytes":"5"},"request_id":"r"}`), request); err != nil {
		t.Fatal(err)
	}
	if request.GetResource().GetMemoryBytes() != 5 || request.GetRequestId() != "r" {
		t.Errorf("read %v", request)
	}
	text, err := convert.StrictJSON{}.Marshal(request)
	if err != nil || !strings.Contains(strings.ReplaceAll(string(text), " ", ""), `"memoryBytes":"5"`) {
		t.Errorf("wrote %s, %v", text, err)
	}
}
