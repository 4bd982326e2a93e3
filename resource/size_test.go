package resource_test

import (
	"strings"
	"testing"

	"github.com/bursar/bursar/resource"
)

func TestASizeIsBytesOrHasAUnit(t *testing.T) {
	for text, want := range map[string]resource.Size{"2GiB": 2 << 30, "2147483648": 2 << 30, "1.5MiB": 3 << 19, "0": 0} {
		var got resource.Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: got %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "2gib", "lots", "-1", "-1GiB"} {
		var got resource.Size
		if err := got.UnmarshalText([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "a size such as 4GiB") {
			t.Errorf("%q: got %d, %v", text, got, err)
		}
	}
	if text := resource.Size(16 << 20).String(); text != "16MiB" {
		t.Errorf("got %s", text)
	}
}
