package quotafile_test

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/bursar/bursar/internal/quotafile"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestRulesAreReadAsWritten(t *testing.T) {
	got, err := quotafile.Parse("quotas.yaml", []byte(`
quotas:
  - selector: {user: "*", creator: IDE}
    limit: {memory: 64GiB, cpu: 16, instances: 10, gpu: 2}
    guaranteed: {memory: 8GiB}
    weight: 3
    normalization:
      minimum: {memory: 512MiB}
      increment: {memory: 256MiB, cpu: 500m}
      maximum: {memory: 32GiB}
  - selector: {user: 007, queue: root.a, engineType: ""}
    limit: {cpu: 0.5}
  - selector: {}
    limit: {instances: 0}
  - selector: {tenant: "*"}
    weight: 2
  - selector: {user: bob}
    limit:
      memory: 1GiB
      external:
        - {kind: yarn, memory: 200GiB, cpu: 100, instances: 40, yarn.io/gpu: 2}
        - kind: exec
          cluster: cad
          path: licences.matlab
          MATLAB: 007
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []*bursarv1.Quota{
		{
			Selector:   map[string]string{"user": "*", "creator": "IDE"},
			Limit:      &bursarv1.Resource{MemoryBytes: proto.Int64(64 << 30), CpuMillis: proto.Int64(16000), Instances: proto.Int64(10), Custom: map[string]int64{"gpu": 2}},
			Guaranteed: &bursarv1.Resource{MemoryBytes: proto.Int64(8 << 30)},
			Weight:     3,
			Normalization: &bursarv1.Normalization{
				Minimum:   &bursarv1.Resource{MemoryBytes: proto.Int64(512 << 20)},
				Increment: &bursarv1.Resource{MemoryBytes: proto.Int64(256 << 20), CpuMillis: proto.Int64(500)},
				Maximum:   &bursarv1.Resource{MemoryBytes: proto.Int64(32 << 30)},
			},
		},
		{Selector: map[string]string{"user": "007", "queue": "root.a", "engineType": ""}, Limit: &bursarv1.Resource{CpuMillis: proto.Int64(500)}},
		{Selector: map[string]string{}, Limit: &bursarv1.Resource{Instances: proto.Int64(0)}},
		{Selector: map[string]string{"tenant": "*"}, Weight: 2},
		{Selector: map[string]string{"user": "bob"}, Limit: &bursarv1.Resource{MemoryBytes: proto.Int64(1 << 30), External: []*bursarv1.ExternalResource{
			{Kind: "exec", Cluster: "cad", Path: "licences.matlab", Custom: map[string]int64{"MATLAB": 7}},
			{
				Kind: "yarn", Cluster: "*", Path: "*", MemoryBytes: proto.Int64(200 << 30), CpuMillis: proto.Int64(100_000), Instances: proto.Int64(40),
				Custom: map[string]int64{"yarn.io/gpu": 2},
			},
		}}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestNoRulesIsAList(t *testing.T) {
	if got, err := quotafile.Parse("x", []byte("quotas: []")); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestExampleIsRight(t *testing.T) {
	text, err := os.ReadFile("../../examples/quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := quotafile.Parse("quotas.yaml", text)
	if err != nil || len(got) < 10 {
		t.Errorf("%d rules, %v", len(got), err)
	}
	// A new operator gets no warning about dimensions that the machine does not have.
	for _, q := range got {
		if limit := q.GetLimit(); len(limit.GetCustom())+len(limit.GetExternal()) > 0 {
			t.Errorf("%v is for more than every host has", q.GetSelector())
		}
		// Without a label rule, all requests without the label share one account.
		_, ofUsers := q.GetSelector()["user"]
		for key, value := range q.GetSelector() {
			if value == "*" && !ofUsers {
				t.Errorf("%v is one account of everybody whose requests have no %s", q.GetSelector(), key)
			}
		}
	}
	whole := regexp.MustCompile("(?m)^  #([- ] )").ReplaceAll(text, []byte("  $1"))
	if all, err := quotafile.Parse("quotas.yaml", whole); err != nil || len(all) != len(got)+3 {
		t.Errorf("with what is a comment: %d rules, %v; want %d", len(all), err, len(got)+3)
	}
}

func TestWrongFileNamesLineFieldAndReason(t *testing.T) {
	const head = "quotas:\n- selector: {user: \"*\"}\n  limit: {memory: 1GiB}\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":            {"", `q.yaml: quotas: missing: want a list of rules, or [] for none`},
		"no list":          {"quotas:\n", `q.yaml:1:1: quotas: missing: want a list of rules, or [] for none`},
		"unknown top":      {"rules: []\n", `q.yaml:1:1: rules: unknown field: want quotas`},
		"unknown field":    {head + "  limits: {cpu: 1}\n", `q.yaml:4:3: quotas[0].limits: unknown field: want selector, limit, guaranteed, weight or normalization`},
		"no selector":      {"quotas:\n- limit: {memory: 1GiB}\n", `q.yaml:2:3: quotas[0].selector: missing: want labels, or {} for everything together`},
		"nothing limited":  {"quotas:\n- selector: {user: a}\n", `q.yaml:2:3: quotas[0].limit: missing: want what the rule limits, such as {memory: 64GiB}`},
		"no value":         {"quotas:\n- selector: {user: }\n  limit: {cpu: 1}\n", `q.yaml:2:14: quotas[0].selector.user: has no value: want one, "*" for every value apart, or "" for requests without this label`},
		"bad size":         {head + "- selector: {user: a}\n  limit:\n    memory: 64GB!\n", `q.yaml:6:13: quotas[1].limit.memory: "64GB!": want a size such as 4GiB`},
		"negative":         {head + "- selector: {user: a}\n  limit: {cpu: -1}\n", `q.yaml:5:16: quotas[1].limit.cpu: "-1": want cores such as 2`},
		"overflow":         {head + "- selector: {user: a}\n  limit: {memory: 9999PiB}\n", `q.yaml:5:19: quotas[1].limit.memory: "9999PiB": want a size`},
		"half a gpu":       {head + "- selector: {user: a}\n  limit: {gpu: 0.5}\n", `q.yaml:5:16: quotas[1].limit.gpu: "0.5": want a whole number`},
		"misspelled":       {head + "- selector: {user: a}\n  limit: {memroy: 3GiB}\n", `q.yaml:5:19: quotas[1].limit.memroy: "3GiB": want a whole number from 0 to 9007199254740991; did you mean memory?`},
		"empty quantity":   {head + "- selector: {user: a}\n  limit: {cpu: }\n", `q.yaml:5:11: quotas[1].limit.cpu: has no value: want a quantity, or leave the line out`},
		"half a weight":    {head + "  weight: 1.5\n", `q.yaml:4:11: quotas[0].weight: "1.5": want a whole number from 1 to 1000000`},
		"zero weight":      {head + "  weight: 0\n", `q.yaml:4:11: quotas[0].weight: "0": want a whole number from 1 to 1000000`},
		"too guaranteed":   {head + "  guaranteed: {memory: 2GiB}\n", `q.yaml:4:24: quotas[0].guaranteed.memory: "2GiB": want at most the limit, 1GiB`},
		"min above max":    {head + "  normalization:\n    minimum: {cpu: 2}\n    maximum: {cpu: 1}\n", `q.yaml:5:20: quotas[0].normalization.minimum.cpu: "2": want at most the maximum, 1`},
		"selector twice":   {head + "- limit: {cpu: 1}\n  selector: {user: \"*\"}\n", `q.yaml:5:13: quotas[1].selector: user=*: already the selector of quotas[0]: want one rule for it`},
		"list of values":   {head + "- selector: {user: [a, b]}\n  limit: {cpu: 1}\n", `q.yaml:4:20: quotas[1].selector.user: is a list: want a single value`},
		"bare star":        {"quotas:\n- selector: {user: *}\n", `q.yaml:2:20: a * has to be quoted: want "*"`},
		"external text":    {head + "- selector: {user: a}\n  limit: {external: yarn}\n", `q.yaml:5:21: quotas[1].limit.external: want a list of external parts, such as [{kind: yarn, memory: 200GiB}]`},
		"external map":     {head + "- selector: {user: a}\n  limit: {external: {kind: yarn, cpu: 1}}\n", `q.yaml:5:21: quotas[1].limit.external: want a list of external parts, such as [{kind: yarn, memory: 200GiB}]`},
		"memory map":       {head + "- selector: {user: a}\n  limit: {memory: {a: 1}}\n", `q.yaml:5:19: quotas[1].limit.memory: is a set of fields: want a single value`},
		"a guarantee":      {head + "- selector: {user: a}\n  guaranteed: {external: yarn}\n", `q.yaml:5:26: quotas[1].guaranteed.external: want a list of external parts, such as [{kind: yarn, memory: 200GiB}]`},
		"external texts":   {head + "- selector: {user: a}\n  limit: {external: [yarn]}\n", `q.yaml:5:22: quotas[1].limit.external[0]: is no map: want a kind and quantities`},
		"no kind":          {head + "- selector: {user: a}\n  limit: {external: [{path: root.a, cpu: 1}]}\n", `q.yaml:5:22: quotas[1].limit.external[0].kind: missing: want the kind of a provider, such as yarn`},
		"empty path":       {head + "- selector: {user: a}\n  limit: {external: [{kind: yarn, path: , cpu: 1}]}\n", `q.yaml:5:35: quotas[1].limit.external[0].path: has no value: want one, or leave it out`},
		"pattern of paths": {head + "- selector: {user: a}\n  limit: {external: [{kind: yarn, path: root.*, cpu: 1}]}\n", `q.yaml:5:41: quotas[1].limit.external[0].path: "root.*": want the full path of a queue`},
		"a partition":      {head + "- selector: {user: a}\n  limit: {external: [{kind: yarn, partition: gpu, cpu: 1}]}\n", `q.yaml:5:46: quotas[1].limit.external[0].partition: "gpu": want no partition`},
		"external nothing": {head + "- selector: {user: a}\n  limit: {external: [{kind: yarn}]}\n", `q.yaml:5:22: quotas[1].limit.external[0]: "none": want quantities to limit, such as memory=200GiB`},
		"external size":    {head + "- selector: {user: a}\n  limit: {external: [{kind: yarn, memory: 1 elephant}]}\n", `q.yaml:5:43: quotas[1].limit.external[0].memory: "1 elephant": want a size such as 4GiB`},
		"a queue":          {head + "- selector: {user: a}\n  limit: {external: [{kind: yarn, queue: root.default, cpu: 1}]}\n", `q.yaml:5:42: quotas[1].limit.external[0].queue: "root.default": want the quantity of a countable queue; did you mean path?`},
		"clusters":         {head + "- selector: {user: a}\n  limit: {external: [{kind: yarn, clusters: prod, cpu: 1}]}\n", `q.yaml:5:45: quotas[1].limit.external[0].clusters: "prod": want the quantity of a countable clusters; did you mean cluster?`},
		"a size of mem":    {head + "- selector: {user: a}\n  limit: {external: [{kind: yarn, mem: 4GiB}]}\n", `q.yaml:5:40: quotas[1].limit.external[0].mem: "4GiB": want the quantity of a countable mem; did you mean memory?`},
		"external list":    {head + "- selector: {user: a}\n  limit: {external: [{kind: yarn, memory: [1]}]}\n", `q.yaml:5:43: quotas[1].limit.external[0].memory: is a list: want a single value`},
		"external twice":   {head + "- selector: {user: a}\n  limit: {external: [{kind: yarn, cpu: 1}, {kind: yarn, path: \"*\", cpu: 2}]}\n", `q.yaml:5:44: quotas[1].limit.external[1]: yarn:*:*: already the place of limit.external[0]: want one entry for it`},
		"list of memory":   {head + "- selector: {user: a}\n  limit: {memory: [1GiB]}\n", `q.yaml:5:19: quotas[1].limit.memory: is a list`},
		"guaranteed place": {head + "  guaranteed: {external: [{kind: yarn, path: root.*, cpu: 1}]}\n", `q.yaml:4:46: quotas[0].guaranteed.external[0].path: "root.*": want the full path of a queue`},
		"guaranteed parts": {
			"quotas:\n- selector: {user: \"*\"}\n  limit: {external: [{kind: yarn, cpu: 2}]}\n  guaranteed:\n    external:\n    - {kind: yarn, path: root, cpu: 1}\n    - {kind: yarn, path: root.a, cpu: 3}\n",
			`q.yaml:7:39: quotas[0].guaranteed.external[1].cpu: "3": want at most the limit of yarn:*:*, 2`,
		},
		"a rule and a rag": {head + "- nonsense\n", `q.yaml:4:3: quotas[1]: is a single value: want a set of fields`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := quotafile.Parse("q.yaml", []byte(c.text))
			var e *quotafile.Error
			if !errors.As(err, &e) || got != nil {
				t.Fatalf("%v, %v: want an *Error and no rules", got, err)
			}
			if !strings.HasPrefix(e.Error(), c.want) {
				t.Errorf("got  %s\nwant %s\n%s", e, c.want, e.Excerpt())
			}
			if e.Line > 0 && !strings.Contains(e.Excerpt(), "^") {
				t.Errorf("no caret in %q", e.Excerpt())
			}
		})
	}
}

func TestBadLabelsPointToTheSelector(t *testing.T) {
	for _, selector := range []string{`{"": a}`, `{"7up": a}`, `{user: "a\u0007"}`, `{"a b": c}`} {
		_, err := quotafile.Parse("q.yaml", []byte("quotas:\n- selector: "+selector+"\n  limit: {cpu: 1}\n"))
		var e *quotafile.Error
		if !errors.As(err, &e) || e.Line != 2 || !strings.HasPrefix(e.Field, "quotas[0].selector") {
			t.Errorf("%s: %v", selector, err)
		}
	}
}

func TestLocateFindsWhatAnotherRefused(t *testing.T) {
	text := []byte("quotas:\n- selector: {user: a}\n  limit: {cpu: 1}\n- selector: {user: b}\n  limit: {cpu: 1}\n")
	e := quotafile.Locate("q.yaml", text, "quotas[1].selector", "ties with user=*,x=y")
	if got := e.Error(); got != "q.yaml:4:13: quotas[1].selector: ties with user=*,x=y" {
		t.Error(got)
	}
	if e := quotafile.Locate("q.yaml", []byte("\t"), "quotas[1]", "why"); e.Error() != "q.yaml: quotas[1]: why" {
		t.Error(e)
	}
}

// Probable mistakes are accepted, because the file may be in force, but reported.
func TestDoubts(t *testing.T) {
	text := []byte(`quotas:
- selector: {user: a}
  limit: {memory: 200, external: [{kind: yarn, memory: 200, vcores: 100}]}
- selector: {user: b}
  guaranteed: {external: [{kind: yarn, am-memory: 4608}]}
  normalization: {minimum: {memory: 512}}
- selector: {user: c}
  limit: {memory: 200GiB, cpu: 1, cores: 1, external: [{kind: yarn, memory: 200B, cpu: 1, applications: 2}]}
`)
	if _, err := quotafile.Parse("q.yaml", text); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, doubt := range quotafile.Doubts("q.yaml", text) {
		got = append(got, doubt.Error())
	}
	const unit = ": want a size with its unit, such as "
	want := []string{
		`q.yaml:3:56: quotas[0].limit.external[0].memory: "200"` + unit + `200MiB or 200GiB: without one it is bytes`,
		`q.yaml:3:69: quotas[0].limit.external[0].vcores: "vcores": want a countable of the cluster; did you mean cpu?`,
		`q.yaml:3:19: quotas[0].limit.memory: "200"` + unit + `200MiB or 200GiB: without one it is bytes`,
		`q.yaml:5:51: quotas[1].guaranteed.external[0].am-memory: "4608"` + unit + `4608MiB or 4608GiB: without one it is bytes`,
		`q.yaml:6:37: quotas[1].normalization.minimum.memory: "512"` + unit + `512MiB or 512GiB: without one it is bytes`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("quotas:\n- selector: {user: a}\n  limit: {cpu: 1, gpu: 3}\n  weight: 2\n  normalization: {minimum: {memory: 1Ki}}\n")
	f.Add("quotas:\n- &a {selector: {x: *}}\n- *a\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := quotafile.Parse("q.yaml", []byte(text))
		var e *quotafile.Error
		if err != nil && (!errors.As(err, &e) || got != nil) {
			t.Errorf("%v, %v", got, err)
		}
		for _, q := range got {
			if q.GetSelector() == nil || q.GetWeight() < 0 || q.GetLimit().GetMemoryBytes() < 0 || q.GetLimit().GetCpuMillis() < 0 {
				t.Errorf("took %v", q)
			}
		}
	})
}
