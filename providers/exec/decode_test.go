package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

func TestDecode(t *testing.T) {
	got, err := Decode([]byte(`{
		"version": 1, "server": "lic1", "incarnation": "2026-11-26T10:00", "untrusted": "one of three servers is away",
		"queues": [
			{"path": "all", "limit": {"custom": {"MATLAB": 10}}, "used": {"custom": {"MATLAB": "4"}}},
			{"path": "all.batch", "partition": "gpu", "state": "DRAIN", "closed": true,
			 "limit": {"memory": "64GiB", "cpu": 1.5, "instances": 0}, "used": {"memoryBytes": 1024, "cpu": "500m", "instances": 3},
			 "guaranteed": {"cpuMillis": 250}, "mayGrow": {"memory": "128GiB", "cpu": 1.5, "instances": 4}, "heldBack": {"applications": 3, "reason": "Resources"}},
			{"path": "all", "partition": "gpu"}
		],
		"applications": [
			{"id": "job 7", "queue": "all", "allocated": {"custom": {"MATLAB": 2}}},
			{"id": "job 8", "queue": "gone", "ended": true},
			{"id": "job 9", "queue": "all.batch", "partition": "gpu", "user": "alice", "allocated": {}}
		]
	}`))
	if err != nil {
		t.Fatal(err)
	}
	var none resource.Vector
	matlab := func(n int64) resource.Vector { return none.With("MATLAB", n) }
	want := &Answer{
		Server: "lic1", Incarnation: "2026-11-26T10:00", Untrusted: "one of three servers is away",
		Queues: []providers.Queue{
			{Path: "all", Limit: matlab(10), Used: matlab(4)},
			{
				Path: "all.batch", Parent: "all", Partition: "gpu", State: "DRAIN", Closed: true, Limit: none.WithMemory(64 << 30).WithCPU(1500).WithInstances(0),
				Used: none.WithMemory(1024).WithCPU(500).WithInstances(3), Guaranteed: none.WithCPU(250),
				MayGrow: none.WithMemory(128 << 30).WithInstances(4), HeldBack: 3, HeldBackBy: "Resources",
			},
			{Path: "all", Partition: "gpu"},
		},
		ListsApplications: true,
		Applications: []providers.Application{
			{ID: "job 7", Known: true, Queue: "all", Allocated: map[string]resource.Vector{"": matlab(2)}},
			{ID: "job 8", Known: true, Ended: true, Queue: "gone", Allocated: map[string]resource.Vector{"": none}},
			{ID: "job 9", Known: true, Queue: "all.batch", User: "alice", Allocated: map[string]resource.Vector{"gpu": none}},
		},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(resource.Vector.Equal)); diff != "" {
		t.Error(diff)
	}
}

// queue returns an answer with one queue that has these fields.
func queue(fields string) string { return `{"version":1,"queues":[{"path":"a",` + fields + `}]}` }

// limit returns an answer with a queue that has this limit and uses nothing.
func limit(fields string) string {
	return queue(`"limit":{` + fields + `},"used":{"memory":0,"cpu":0,"instances":0}`)
}

const whole = "a whole number from 0 to 9007199254740991; for no limit leave it out"

func TestWhatMakesNoSenseIsRefusedWhereItStands(t *testing.T) {
	const size = "a size with its unit, such as 64GiB (powers of 1024) or 64G (powers of 1000), up to 8PiB; memoryBytes takes plain bytes; for no limit leave it out"
	const cores = `cores such as 2, 1.5 or "500m"; for no limit leave it out`
	const one = `{"path":"a"}`
	for name, test := range map[string]struct{ text, want string }{
		"nothing":              {" \n", "standard output: missing: want one JSON object; the command printed nothing there"},
		"words":                {"lmgrd is down\n", `standard output: "lmgrd is down": want one JSON object (byte 1: invalid character 'l' looking for beginning of value)`},
		"a terminal's":         {"\x1b[31m\u202e{}", `standard output: "\x1b[31m\u202e{}": want one JSON object (byte 1: `},
		"cut off":              {`{"version":1,"queues":[{"path":"a"`, `standard output: "{\"version\":1,\"queues\":[{\"path\":\"a\"": want one JSON object (byte 34: unexpected end of JSON input)`},
		"two":                  {"{\"version\":1,\n\"queues\":[{\"path\":\"a\"}]} {}\n", `standard output: "\"queues\":[{\"path\":\"a\"}]} {}": want one JSON object (byte 40: invalid character '{' after top-level value)`},
		"a list":               {`[]`, `standard output: []: want one JSON object`},
		"null":                 {`null`, `standard output: null: want one JSON object`},
		"no version":           {`{"queues":[]}`, "version: missing: want 1"},
		"a later version":      {`{"new":1,"version":2}`, `version: "2": want 1`},
		"an unknown field":     {`{"version":1,"queue":[]}`, `queue: "queue": want one of the fields version, server, incarnation, untrusted, queues or applications`},
		"a field twice":        {`{"version":1,"server":"a","server":"b"}`, `server: "server": want each field once`},
		"no queues":            {`{"version":1}`, "queues: missing: want a list of queues"},
		"an empty list":        {`{"version":1,"queues":[]}`, "queues: []: want at least one queue; "},
		"no list":              {`{"version":1,"queues":{"path":"a"}}`, `queues: {"path":"a"}: want a list`},
		"too many":             {`{"version":1,"queues":[` + strings.Repeat(one+",", 10000) + one + `]}`, "queues: more than 10000 of them: want at most 10000"},
		"no queue":             {`{"version":1,"queues":["a"]}`, `queues[0]: "a": want an object`},
		"no path":              {`{"version":1,"queues":[{"state":"up"}]}`, "queues[0].path: missing: want the path of the queue, such as licences or team-a.batch"},
		"a master":             {limit(`"custom":{"am-memory":1}`), `queues[0].limit.custom.am-memory: "am-memory": want another name`},
		"applications":         {limit(`"custom":{"applications":1}`), `queues[0].limit.custom.applications: "applications": want another name`},
		"a hostile reason":     {`{"version":1,"queues":[{"path":"a"}],"untrusted":"\u001b[2Jall is well"}`, `untrusted: "\x1b[2Jall is well": want no characters that cannot be seen`},
		"a size of 4":          {limit(`"memory":4`), "queues[0].limit.memory: 4: want a size with its unit"},
		"none above":           {`{"version":1,"queues":[{"path":"a.b","limit":{"custom":{"x":1}},"used":{"custom":{"x":0}}},{"path":"a"}]}`, "queues[1].limit.custom.x: missing: want a limit, as queues[0] below it has one"},
		"a text for a limit":   {queue(`"limit":"64GiB"`), `queues[0].limit: "64GiB": want an object`},
		"closed":               {queue(`"closed":"yes"`), `queues[0].closed: "yes": want true or false`},
		"a long state":         {queue(`"state":"` + strings.Repeat("x", 257) + `"`), `queues[0].state: "` + strings.Repeat("x", 76) + ` …": want at most 256 characters`},
		"an unknown dimension": {limit(`"vcores":1`), `queues[0].limit.vcores: "vcores": want one of the fields memory, memoryBytes, cpu, cpuMillis, instances or custom`},
		"memory, no unit":      {limit(`"memory":"64"`), `queues[0].limit.memory: "64": want ` + size},
		"memory, a number":     {limit(`"memory":64.5`), `queues[0].limit.memory: 64.5: want ` + size},
		"memory, small g":      {limit(`"memory":"64g"`), `queues[0].limit.memory: "64g": want ` + size},
		"memory, negative":     {limit(`"memory":"-64GiB"`), `queues[0].limit.memory: "-64GiB": want ` + size},
		"memory, too much":     {limit(`"memory":"9PiB"`), `queues[0].limit.memory: "9PiB": want ` + size},
		"memory in two units":  {limit(`"memory":"1GiB","memoryBytes":5`), "queues[0].limit.memoryBytes: a second figure: want memory in one unit"},
		"bytes, negative":      {limit(`"memoryBytes":-1`), "queues[0].limit.memoryBytes: -1: want " + whole},
		"bytes, 1e308":         {limit(`"memoryBytes":1e308`), "queues[0].limit.memoryBytes: 1e308: want " + whole},
		"bytes, a fraction":    {limit(`"memoryBytes":1.5`), "queues[0].limit.memoryBytes: 1.5: want " + whole},
		"bytes, 2^53":          {limit(`"memoryBytes":9007199254740992`), "queues[0].limit.memoryBytes: 9007199254740992: want " + whole},
		"bytes, in words":      {limit(`"memoryBytes":"NaN"`), `queues[0].limit.memoryBytes: "NaN": want ` + whole},
		"bytes, a null":        {limit(`"memoryBytes":null`), "queues[0].limit.memoryBytes: null: want " + whole},
		"NaN":                  {limit(`"memoryBytes":NaN`), "standard output: "},
		"cpu, negative":        {limit(`"cpu":-1`), "queues[0].limit.cpu: -1: want " + cores},
		"cpu, 1e308":           {limit(`"cpu":1e308`), "queues[0].limit.cpu: 1e308: want " + cores},
		"cpu in two units":     {limit(`"cpu":1,"cpuMillis":1000`), "queues[0].limit.cpuMillis: a second figure: want cpu in one unit"},
		"instances, a list":    {limit(`"instances":[1,2]`), "queues[0].limit.instances: [1,2]: want " + whole},
		"a fixed dimension":    {limit(`"custom":{"memory":1}`), `queues[0].limit.custom: "memory": want a name that is not a fixed dimension's`},
		"a custom name":        {limit(`"custom":{"a b":1}`), `queues[0].limit.custom: "a b": want a letter, then`},
		"custom, negative":     {limit(`"custom":{"gpu":-1}`), "queues[0].limit.custom.gpu: -1: want a whole number from 0 to 9007199254740991"},
		"custom, no object":    {limit(`"custom":3`), "queues[0].limit.custom: 3: want an object"},
		"a hostile field":      {limit(`"custom":{"\u001b[2J":"\u202e"}`), `queues[0].limit.custom.?[2J: "\u202e": want`},
		"nothing used":         {queue(`"limit":{"cpu":1}`), "queues[0].used: missing: want what is used of cpu, which has a limit; 0 if nothing is"},
		"memory, not used":     {queue(`"limit":{"memory":"1GiB"},"used":{"cpu":1}`), "queues[0].used.memory: missing: want what is used of memory"},
		"grows from what?":     {limit(`"memory":"1GiB"},"mayGrow":{"cpu":2`), "queues[0].limit.cpu: missing: want the limit of today, as it may grow"},
		"grows by nonsense":    {queue(`"mayGrow":{"memory":"big"}`), `queues[0].mayGrow.memory: "big": want a size with its unit, such as 64GiB (powers of 1024) or 64G (powers of 1000), up to 8PiB; memoryBytes takes plain bytes; for no growth leave it out`},
		"how many held back?":  {queue(`"heldBack":{"reason":"Resources"}`), "queues[0].heldBack.applications: missing: want a whole number from 0 to 100000"},
		"too many held back":   {queue(`"heldBack":{"applications":100001}`), "queues[0].heldBack.applications: 100001: want a whole number from 0 to 100000"},
		"held back, a number":  {queue(`"heldBack":3`), "queues[0].heldBack: 3: want an object"},
		"gpus, not used":       {queue(`"limit":{"custom":{"gpu":1}},"used":{}`), "queues[0].used.custom.gpu: missing: want what is used of gpu"},
		"an application twice": {`{"version":1,"queues":[{"path":"a"}],"applications":[{"id":"x","queue":"a","allocated":{}},{"id":"x","queue":"a","allocated":{}}]}`, `applications[1].id: "x": want each id once; applications[0] has it, too`},
		"no id":                {`{"version":1,"queues":[{"path":"a"}],"applications":[{"queue":"a"}]}`, "applications[0].id: missing: want the id that confirm --application names"},
		"a long id":            {`{"version":1,"queues":[{"path":"a"}],"applications":[{"id":"` + strings.Repeat("x", 129) + `"}]}`, `applications[0].id: "` + strings.Repeat("x", 76) + ` …": want at most 128 characters`},
		"an id, no queue":      {`{"version":1,"queues":[{"path":"a"}],"applications":[{"id":"x","allocated":{}}]}`, "applications[0].queue: missing: want the path of its queue"},
		"in another queue":     {`{"version":1,"queues":[{"path":"a"}],"applications":[{"id":"x","queue":"b","allocated":{}}]}`, `applications[0].queue: "b": want the path of a queue in the list, in the same partition`},
		"holds what?":          {`{"version":1,"queues":[{"path":"a"}],"applications":[{"id":"x","queue":"a"}]}`, "applications[0].allocated: missing: want what it holds in its queue, or {} for nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(test.text))
			_, is := errors.AsType[*AnswerError](err)
			if !is || !strings.HasPrefix(err.Error(), test.want) || len(err.Error()) > 1000 {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestTooManyCountablesAreRefused(t *testing.T) {
	var list []string
	for i := range resource.MaxCustom + 1 {
		list = append(list, fmt.Sprintf(`"c%02d":1`, i))
	}
	_, err := Decode([]byte(limit(`"custom":{` + strings.Join(list, ",") + `}`)))
	if err == nil || err.Error() != `queues[0].limit.custom.c16: "c16": want at most 16 of them in one queue` {
		t.Error(err)
	}
}

// vectors generates quantities that a command can print.
func vectors(names []string) *rapid.Generator[resource.Vector] {
	quantity := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(0, resource.MaxQuantity))
	return rapid.Custom(func(t *rapid.T) resource.Vector {
		var v resource.Vector
		for _, dimension := range append([]string{resource.Memory, resource.CPU, resource.Instances}, names...) {
			if rapid.Bool().Draw(t, dimension) {
				v = v.With(dimension, quantity.Draw(t, "quantity"))
			}
		}
		return v
	})
}

// written formats a vector in one of its valid JSON forms.
func written(t *rapid.T, v resource.Vector) string {
	var fields, custom []string
	for dimension, quantity := range v.All() {
		var forms []string
		switch dimension {
		case resource.Memory:
			forms = []string{fmt.Sprintf(`"memoryBytes":%d`, quantity), fmt.Sprintf(`"memoryBytes":"%d"`, quantity), fmt.Sprintf(`"memory":"%dB"`, quantity)}
		case resource.CPU:
			forms = []string{fmt.Sprintf(`"cpuMillis":%d`, quantity), fmt.Sprintf(`"cpu":"%dm"`, quantity), fmt.Sprintf(`"cpu": %d.%03d`, quantity/1000, quantity%1000)}
		case resource.Instances:
			forms = []string{fmt.Sprintf(`"instances":%d`, quantity)}
		default:
			custom = append(custom, fmt.Sprintf(`"%s":%d`, dimension, quantity))
			continue
		}
		fields = append(fields, rapid.SampledFrom(forms).Draw(t, "form"))
	}
	if len(custom) > 0 {
		fields = append(fields, `"custom":{`+strings.Join(custom, ",")+`}`)
	}
	return "{" + strings.Join(rapid.Permutation(fields).Draw(t, "order"), ",") + "}"
}

func TestWhatIsPrintedIsRead(t *testing.T) {
	names := []string{"gpu", "nvidia.com/gpu", "MATLAB"}
	rapid.Check(t, func(t *rapid.T) {
		var want, text, ids []string
		queues := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9-]{0,10}`), 1, 5, rapid.ID[string]).Draw(t, "queues")
		for _, path := range queues {
			limit := vectors(names).Draw(t, "limit")
			used := vectors(names).Draw(t, "used")
			for dimension := range limit.All() {
				if !used.Has(dimension) {
					used = used.With(dimension, 0)
				}
			}
			text = append(text, fmt.Sprintf(`{"path":%q,"limit":%s,"used":%s}`, path, written(t, limit), written(t, used)))
			want = append(want, fmt.Sprintf("%s %s %s", path, limit, used))
			ids = append(ids, fmt.Sprintf(`{"id":%q,"queue":%q,"allocated":%s}`, "of "+path, path, written(t, used)))
		}
		a, err := Decode([]byte(`{"queues":[` + strings.Join(text, ",") + `],"version":1,"applications":[` + strings.Join(ids, ",") + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		for i, q := range a.Queues {
			if got := fmt.Sprintf("%s %s %s", q.Path, q.Limit, q.Used); got != want[i] {
				t.Fatalf("%s, want %s", got, want[i])
			}
			if held := a.Applications[i].Allocated[""]; !held.Equal(q.Used) {
				t.Fatalf("%s holds %s, want %s", a.Applications[i].ID, held, q.Used)
			}
		}
	})
}

// answered is a provider that always returns one answer.
type answered struct {
	providers.Provider
	answer *Answer
}

func (p answered) Snapshot(context.Context) (providers.Snapshot, error) {
	a := p.answer
	return providers.Snapshot{Queues: a.Queues, Unaddressable: a.Unaddressable, MoreUnaddressable: a.MoreUnaddressable}, nil
}

// cleaned returns an answer as a coordinator reads it.
func cleaned(t *testing.T, a *Answer) providers.Snapshot {
	t.Helper()
	s, err := providers.Clean(answered{answer: a}).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Other people than the author of a command may choose queue names. No name hides another queue,
// and a queue that no request can name is listed as unaddressable.
func TestNoNameHidesAnotherQueue(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	for name, test := range map[string]struct {
		path   string // as JSON, without the quotes
		kept   string // the path in Queues; empty: no request can name it
		shown  string // the name in Unaddressable then
		reason string
	}{
		"a comma":           {path: "a,b", kept: "a,b"},
		"a colon":           {path: "a:b", kept: "a:b"},
		"an address":        {path: "a@p", kept: "a@p"},
		"a star in it":      {path: "a*", kept: "a*"},
		"a blank behind":    {path: "ok ", kept: "ok "},
		"blanks alone":      {path: "  ", kept: "  "},
		"the star":          {path: "*", shown: `"*"`, reason: `"*" stands for every queue and partition`},
		"nothing":           {path: "", shown: `""`, reason: "it has no name"},
		"an empty name":     {path: "a..b", shown: `"a..b"`, reason: "it has no name"},
		"NUL":               {path: `a\u0000b`, shown: `"a\u0000b"`, reason: "its name has characters that cannot be seen"},
		"a direction":       {path: `a\u202eb`, shown: `"a\u202eb"`, reason: "its name has characters that cannot be seen"},
		"a wide blank":      {path: `ok\u3000`, shown: `"ok\u3000"`, reason: "its name has characters that cannot be seen"},
		"half a character":  {path: `ok\ud800`, shown: "\"ok\ufffd\"", reason: "its name has lost characters"},
		"no UTF-8":          {path: "ok\xff", shown: "\"ok\ufffd\"", reason: "its name has lost characters"},
		"64 KiB":            {path: long, shown: `"xxxx`, reason: "its path is too long"},
		"nothing above it":  {path: "a.b", shown: `"a.b"`, reason: `the queue above it, "a", is not in the list`},
		"no two above it":   {path: "ok.b.c", shown: `"ok.b.c"`, reason: `the queue above it, "ok.b", is not in the list`},
		"the name of other": {path: "ok2", shown: `"ok2"`, reason: "another queue has the same path"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := Decode([]byte(`{"version":1,"queues":[{"path":"ok","limit":{"cpu":1},"used":{"cpu":0}},{"path":"ok2"},{"path":"` + test.path + `"}],
				"applications":[{"id":"1","queue":"` + test.path + `","allocated":{}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			s := cleaned(t, a)
			paths := map[string]providers.Queue{}
			for _, q := range s.Queues {
				paths[q.Path] = q
			}
			if q, there := paths["ok"]; !there || q.Closed || q.Limit.CPU() != 1000 {
				t.Errorf("the queue next to it is %+v", q)
			}
			if q := paths["ok2"]; q.Closed != (test.path == "ok2") {
				t.Errorf("ok2 is %+v", q)
			}
			if test.kept != "" {
				if _, there := paths[test.kept]; !there || len(s.Unaddressable) != 0 {
					t.Errorf("kept are %v, left out %v", paths, s.Unaddressable)
				}
				return
			}
			if len(s.Unaddressable) != 1 || !strings.HasPrefix(s.Unaddressable[0].Name, test.shown) || !strings.HasPrefix(s.Unaddressable[0].Reason, test.reason) {
				t.Errorf("listed as unaddressable are %q; want %s: %s", s.Unaddressable, test.shown, test.reason)
			}
		})
	}
}

// FuzzDecode feeds any input to the decoder, which must return an error or a consistent answer.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(limit(`"memory":"64GiB","cpu":1.5,"instances":3`)))
	f.Add([]byte(`{"version":1,"queues":[{"path":"a"},{"path":"a.b","partition":""}],"applications":[{"id":"x","queue":"a","allocated":{}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := Decode(data)
		if err != nil {
			wrong, is := errors.AsType[*AnswerError](err)
			if !is || wrong.Want == "" || len(err.Error()) > 2000 || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x202e }) {
				t.Fatalf("%q", err)
			}
			return
		}
		clean := cleaned(t, a)
		places := map[place]bool{}
		for _, q := range clean.Queues {
			places[place{q.Path, q.Partition}] = true
		}
		if len(clean.Queues)+len(clean.Unaddressable)+clean.MoreUnaddressable == 0 || len(places) != len(clean.Queues) {
			t.Fatalf("%d queues in %d places", len(clean.Queues), len(places))
		}
		for _, q := range clean.Queues {
			at := resource.Resource{External: []resource.External{{Address: resource.Address{Kind: "exec", Cluster: "c", Path: q.Path, Partition: q.Partition}}}}
			if err := at.Validate(); err != nil {
				t.Fatal(err)
			}
			if q.Parent != "" && (!places[place{q.Parent, q.Partition}] || !strings.HasPrefix(q.Path, q.Parent+".")) {
				t.Fatalf("%q is not below %q", q.Path, q.Parent)
			}
			for _, v := range []resource.Vector{q.Limit, q.Used, q.Guaranteed, q.MayGrow} {
				if err := v.Validate(); err != nil {
					t.Fatal(err)
				}
			}
			for dimension := range q.Limit.All() {
				if !q.Used.Has(dimension) {
					t.Fatalf("%s: nobody knows what is used of %s", q.Path, dimension)
				}
			}
		}
		if !a.ListsApplications && len(a.Applications) > 0 {
			t.Fatal("applications without a list")
		}
	})
}
