package convert_test

import (
	"errors"
	"strings"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// The error about a value of the wrong type names the field, and gives the probably intended value
// in the right form.
func TestWrongValuesOfJSONAreToldByFieldAndRightForm(t *testing.T) {
	for text, want := range map[string]string{
		`{"wait":"10m"}`:                                     `wait: "10m": want seconds as a text with "s" behind, such as "600s"`,
		`{"wait":"1h30m"}`:                                   `wait: "1h30m": want seconds as a text with "s" behind, such as "5400s"`,
		`{"wait":"1d"}`:                                      `wait: "1d": want seconds as a text with "s" behind, such as "86400s"`,
		`{"wait":30}`:                                        `wait: "30": want seconds as a text with "s" behind, such as "30s"`,
		`{"wait":"500ms"}`:                                   `wait: "500ms": want seconds as a text with "s" behind, such as "0.5s"`,
		`{"wait":"soon"}`:                                    `wait: "soon": want seconds as a text with "s" behind, such as "600s"`,
		`{"wait":{"seconds":5}}`:                             `wait: "{\"seconds\":5}": want seconds`,
		`{"reservationTtl":"2m"}`:                            `reservation_ttl: "2m": want seconds`,
		`{"reservation_ttl":"2m"}`:                           `reservation_ttl: "2m": want seconds`,
		`{"resource":{"memoryBytes":"4GiB"}}`:                `resource.memory_bytes: "4GiB": want a whole number from -9223372036854775808 to 9223372036854775807, such as "4294967296"`,
		`{"resource":{"memoryBytes":1.5}}`:                   `resource.memory_bytes: "1.5": want a whole number`,
		`{"resource":{"cpuMillis":"1.5"}}`:                   `resource.cpu_millis: "1.5": want a whole number from -9223372036854775808 to 9223372036854775807, such as "1500"`,
		`{"resource":{"custom":{"gpu":"two"}}}`:              `resource.custom[gpu]: "two": want a whole number`,
		`{"resource":{"external":[{"memoryBytes":"1GiB"}]}}`: `resource.external[0].memory_bytes: "1GiB": want a whole number`,
		`{"resource":{"external":{"kind":"yarn"}}}`:          `resource.external: "{\"kind\":\"yarn\"}": want a list`,
		`{"resource":"4GiB"}`:                                `resource: "4GiB": want an object`,
		`{"priority":"high"}`:                                `priority: "high": want a whole number from -2147483648 to 2147483647`,
		`{"priority":2147483648}`:                            `priority: "2147483648": want a whole number from -2147483648 to 2147483647`,
		`{"async":"yes"}`:                                    `async: "yes": want true or false, without quotes`,
		`{"labels":{"user":7}}`:                              `labels[user]: "7": want a text in double quotes`,
		`{"labels":["user=alice"]}`:                          `labels: "[\"user=alice\"]": want an object of names and values`,
		`{"wait":"10m\u202e"}`:                               `wait: "10m?": want seconds`,
		`"x"`:                                                `request: "x": want an object`,
	} {
		err := convert.StrictJSON{}.Unmarshal([]byte(text), &bursarv1.AllocateRequest{})
		if _, typed := errors.AsType[*resource.FieldError](err); !typed || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"pageSize":"many"}`:                  `page_size: "many": want a whole number`,
		`{"endedSince":"2026-11-29 10:00:00"}`: `ended_since: "2026-11-29 10:00:00": want a time of RFC 3339 with its zone, such as "2026-11-29T10:00:00Z"`,
		`{"endedSince":1700000000}`:            `ended_since: "1700000000": want a time of RFC 3339 with its zone, such as "2023-11-14T22:13:20Z"`,
		`{"states":["ACTIVE"]}`:                `states[0]: "ACTIVE": want one of ALLOCATION_STATE_UNSPECIFIED, ALLOCATION_STATE_WAITING`,
	} {
		err := convert.StrictJSON{}.Unmarshal([]byte(text), &bursarv1.AllocationServiceListRequest{})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
	// The error about invalid JSON says that it is invalid.
	if err := (convert.StrictJSON{}).Unmarshal([]byte(`{"requestId":`), &bursarv1.AllocateRequest{}); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Error(err)
	}
	// A field of the right type is not blamed for an unknown field.
	err := convert.StrictJSON{}.Unmarshal([]byte(`{"wait":"600s","resource":{"memory":4,"memoryBytes":"5"}}`), &bursarv1.AllocateRequest{})
	if err == nil || !strings.Contains(err.Error(), `unknown field "memory"`) {
		t.Error(err)
	}
}
