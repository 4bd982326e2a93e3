package yarn

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// payloads returns the files with a suffix below testdata/payloads, by their path there.
func payloads(t testing.TB, suffix string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	files, err := filepath.Glob(filepath.Join("testdata", "payloads", "*", "*"+suffix))
	if err != nil || len(files) == 0 {
		t.Fatalf("no payloads %s: %v", suffix, err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(filepath.Join("testdata", "payloads"), file)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.ToSlash(name)] = body
	}
	return found
}

// An answer key from another program agrees with the decoder in every column.
func TestDecodeAgreesWithTheAnswerKey(t *testing.T) {
	key, err := os.ReadFile(filepath.Join("testdata", "payloads", "EXPECTED.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(key)), "\n")
	columns := strings.Split(lines[0], "\t")
	bodies := payloads(t, ".json")
	read := map[string]map[queueKey]row{}
	for _, line := range lines[1:] {
		want := row{}
		for i, value := range strings.Split(line, "\t") {
			want[columns[i]] = value
		}
		file := want["file"]
		if read[file] == nil {
			s, err := Decode(bytes.NewReader(bodies[file]))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			read[file] = map[queueKey]row{}
			for _, e := range s.Entries {
				read[file][queueKey{e.Path, e.Partition}] = rowOf(e)
			}
		}
		partition := want["partition"]
		if partition == "(default)" || partition == "-" {
			partition = ""
		}
		got, found := read[file][queueKey{want["path"], partition}]
		if !found {
			t.Errorf("%s: %s is not there", file, want["path"])
		}
		for _, column := range columns[4:] {
			if !sameFigure(got[column], want[column]) {
				t.Errorf("%s: %s: %s is %q, want %q", file, want["path"], column, got[column], want[column])
			}
		}
		delete(read[file], queueKey{want["path"], partition})
	}
	for file, rest := range read {
		for at := range rest {
			if at.path != "root" { // the key leaves out the root of the CapacityScheduler
				t.Errorf("%s: %s is not in the key", file, at.path)
			}
		}
	}
}

// sameFigure compares numbers by value: 50.0 equals 50.
func sameFigure(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX != nil || errY != nil {
		return a == b
	}
	return x == y
}

// A second reader, which shares no code with the decoder, finds the same queues and figures.
func TestDecodeAgreesWithASecondReader(t *testing.T) {
	for file, body := range payloads(t, ".json") {
		if strings.HasPrefix(file, "synthetic/") {
			continue // no scheduler answers; see TestScripts
		}
		t.Run(file, func(t *testing.T) {
			compareRows(t, body, walk(t, body))
		})
	}
}

// The XML and the JSON of an answer give the same result. So does the XML converted to JSON, in
// which a single element replaces each list of one, and every number is quoted.
func TestDecodeAgreesWithTheXML(t *testing.T) {
	twins := payloads(t, ".json")
	for file, body := range payloads(t, ".xml") {
		t.Run(file, func(t *testing.T) {
			asJSON, err := json.Marshal(fromXML(t, bytes.NewReader(body)))
			if err != nil {
				t.Fatal(err)
			}
			want := walk(t, asJSON)
			compareRows(t, asJSON, want)
			if twin := twins[strings.TrimSuffix(file, ".xml")+".json"]; twin != nil {
				compareRows(t, twin, want)
			}
		})
	}
}

// Inputs that are not, or barely, a scheduler's answer are rejected with the right reason, or read.
func TestDecodeOfWhatIsHardlyAnAnswer(t *testing.T) {
	bodies := payloads(t, ".txt")
	bodies["synthetic/remote-exception.json"] = payloads(t, ".json")["synthetic/remote-exception.json"]
	for file, want := range map[string]any{
		"synthetic/no-active-200-body.txt":             NoneActive,
		"synthetic/no-active-307-refresh-body.txt":     NoneActive,
		"synthetic/standby-2.7.0-200-refresh-body.txt": Standby,
		"synthetic/standby-307-body.txt":               Standby,
		"synthetic/remote-exception.json":              RemoteException,
		// an extra comma, only in the documentation
		"docs/scheduler-fair-2.8.5-1.invalid-json.txt":  Malformed,
		"docs/scheduler-fair-2.10.1-1.invalid-json.txt": Malformed,
		"synthetic/raw-NaN-invalid.json.txt":            "fifo\nroot.default RUNNING\nunsized \"\"\n",
		"synthetic/fair-2.7-duplicate-childQueues.json.txt": `fair
root limit(memory=64GiB,cpu=64) used(memory=6GiB,cpu=6) guaranteed(memory=0B,cpu=0) most=2147483647
root.default limit(memory=64GiB,cpu=64) used(memory=0B,cpu=0) guaranteed(memory=0B,cpu=0) pending=0 active=0 most=2147483647
root.bdp limit(memory=32GiB,cpu=32) used(memory=6GiB,cpu=6) guaranteed(memory=0B,cpu=0) most=50
root.bdp.a limit(memory=16GiB,cpu=16) used(memory=4GiB,cpu=4) guaranteed(memory=0B,cpu=0) pending=1 active=2 most=20
root.bdp.b limit(memory=16GiB,cpu=16) used(memory=2GiB,cpu=2) guaranteed(memory=0B,cpu=0) pending=0 active=1 most=20
`,
	} {
		s, err := Decode(bytes.NewReader(bodies[file]))
		var got any
		if refused, is := errors.AsType[*AnswerError](err); is {
			got = refused.Refusal
		} else if err == nil {
			got = entryLines(s)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %v\n%s", file, err, diff)
		}
		delete(bodies, file)
	}
	for file := range bodies {
		t.Errorf("%s: nothing is said of it", file)
	}
}

func compareRows(t *testing.T, body []byte, want []row) {
	t.Helper()
	s, err := Decode(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	index := func(rows []row) map[queueKey]row {
		found := map[queueKey]row{}
		for _, r := range rows {
			for column, value := range r {
				if value == "" && column != "path" && column != "partition" {
					delete(r, column)
				}
			}
			found[queueKey{r["path"], r["partition"]}] = r
		}
		if len(found) != len(rows) {
			t.Errorf("%d queues are there twice", len(rows)-len(found))
		}
		return found
	}
	var got []row
	for _, e := range s.Entries {
		got = append(got, rowOf(e))
	}
	figures := cmp.FilterPath(func(p cmp.Path) bool {
		at, is := p.Last().(cmp.MapIndex)
		return is && strings.HasPrefix(at.Key().String(), "abs")
	}, cmp.Comparer(sameFigure))
	if diff := cmp.Diff(index(want), index(got), figures); diff != "" {
		t.Errorf("the second reader (-), the decoder (+):\n%s", diff)
	}
}

// An answer in the formats of other versions gives the same result: sorted and without blanks, with
// a single element for a list of one, with null or nothing for an empty value, and without the
// attributes that Hadoop 3.5 has dropped.
func TestDecodeReadsTheSameInOtherShapes(t *testing.T) {
	shapes := map[string]func(key string, value any) (any, bool){
		"sorted": func(_ string, value any) (any, bool) { return value, true },
		"a thing alone": func(_ string, value any) (any, bool) {
			if list, is := value.([]any); is && len(list) == 1 {
				return list[0], true
			}
			return value, true
		},
		"null": func(_ string, value any) (any, bool) {
			if fields, is := value.(map[string]any); is && len(fields) == 0 {
				return nil, true
			}
			return value, true
		},
		"nothing": func(_ string, value any) (any, bool) {
			fields, is := value.(map[string]any)
			return value, !is || len(fields) > 0
		},
		"3.5": func(key string, value any) (any, bool) { return value, key != "attributes" },
	}
	for file, body := range payloads(t, ".json") {
		if strings.HasPrefix(file, "synthetic/") {
			continue
		}
		want, err := Decode(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, shape := range shapes {
			var answer any
			if err := json.Unmarshal(body, &answer); err != nil {
				t.Fatal(err)
			}
			other, err := json.Marshal(reshaped(answer, shape))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(bytes.NewReader(other))
			if err != nil {
				t.Errorf("%s, %s: %v", file, name, err)
			} else if diff := cmp.Diff(entryLines(want), entryLines(got)); diff != "" {
				t.Errorf("%s, %s:\n%s", file, name, diff)
			}
		}
	}
}

// No figure in a real answer counts as impossible.
func TestRealAnswersHaveNoAbsurdFigures(t *testing.T) {
	bodies := payloads(t, ".json")
	captured, err := filepath.Glob(filepath.Join("testdata", "captured", "*", "scheduler.json"))
	if err != nil || len(captured) == 0 {
		t.Fatalf("%d answers, %v", len(captured), err)
	}
	for _, file := range captured {
		if bodies[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	for file, body := range bodies {
		if strings.HasPrefix(file, "synthetic/") {
			continue
		}
		if s, err := Decode(bytes.NewReader(body)); err != nil || s.Doubts() != "" {
			t.Errorf("%s: %v, %s", file, err, s.Doubts())
		}
	}
}

func reshaped(value any, shape func(key string, value any) (any, bool)) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if other, keep := shape(key, reshaped(field, shape)); keep {
				value[key] = other
			} else {
				delete(value, key)
			}
		}
		return value
	case []any:
		for i := range value {
			value[i] = reshaped(value[i], shape)
		}
		return value
	default:
		return value
	}
}
