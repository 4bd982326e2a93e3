package yarn

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func TestStreamReplacesWordsThatAreNoJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":NaN}`:                      `{"a":"" }`,
		`[INF,-INF,Infinity,-Infinity]`:  `["" ,-0 ,"" ,-0 ]`,
		"{\r\n\t \"a  b\" :\t\t 1}\n\n":  "{\r\"a  b\" :\t1}\n", // blanks collapsed to one
		`{"NaN":"INF \"NaN\" \\","b":1}`: `{"NaN":"INF \"NaN\" \\","b":1}`,
		`[true,false,null,1e5,1E-5,-1]`:  `[true,false,null,1e5,1E-5,-1]`,
		`["\\",NaN,"\\\"",NaN]`:          `["\\","" ,"\\\"","" ]`,
	} {
		for name, from := range map[string]io.Reader{
			"at once": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in)),
			"with the end": iotest.DataErrReader(strings.NewReader(in)),
		} {
			got, err := io.ReadAll(&stream{from: from})
			if err != nil || string(got) != want {
				t.Errorf("%s: %s became %s, %v; want %s", name, in, got, err, want)
			}
			if !json.Valid(got) {
				t.Errorf("%s became %s, which is no JSON", in, got)
			}
		}
	}
}

// Valid JSON passes unchanged, for any sizes of the reads.
func TestStreamLeavesJSONAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.MapOf(rapid.String(), rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.Float64(), func(f float64) any { return f }),
			rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		)).Draw(t, "values")
		in, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		var parts []io.Reader
		for rest := in; len(rest) > 0; {
			n := rapid.IntRange(0, len(rest)).Draw(t, "n")
			parts, rest = append(parts, bytes.NewReader(rest[:n])), rest[n:]
		}
		got, err := io.ReadAll(&stream{from: io.MultiReader(parts...)})
		if err != nil || !bytes.Equal(got, in) {
			t.Fatalf("%s became %s, %v", in, got, err)
		}
	})
}

// endless returns a beginning and then repeats a text for ever.
type endless struct {
	piece string
	at    int
	read  int64
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.piece[e.at%len(e.piece)]
		e.at++
	}
	e.read += int64(len(p))
	return len(p), nil
}

// An endless answer of any form is rejected long before it fills the memory.
func TestDecodeRefusesWhatIsExcessive(t *testing.T) {
	const queues = `{"scheduler":{"schedulerInfo":{"queueName":"root","queues":{"queue":[`
	for name, test := range map[string]struct {
		begin, piece string
		most         int64 // the largest number of bytes read
	}{
		"a string":                    {queues + `{"queueName":"`, `x`, 2 << 20},
		"a string passed over":        {queues + `{"new":"`, `x`, 2 << 20},
		"a key":                       {queues + `{"`, `x`, 2 << 20},
		"a number":                    {queues + `{"numApplications":`, `1`, 1 << 20},
		"a quoted number":             {queues + `{"numApplications":"`, `1`, 2 << 20},
		"queues that are passed over": {queues, `{"queueName":"a","queues":{"queue":[`, 1 << 20},
		"long keys of open objects":   {queues, `{"` + strings.Repeat("x", 1000) + `":`, 1 << 17},
		"arrays in arrays":            {queues, `[`, 1 << 20},
		"objects in objects":          {queues, `{"queue":`, 1 << 20},
		"arrays passed over":          {`{"a":`, `[`, 1 << 20},
		"objects passed over":         {`{"a":`, `{"a":`, 1 << 20},
		"queues":                      {queues, `{"queueName":"a"},`, 4 << 20},
		"partitions":                  {queues + `{"queueName":"a","capacities":{"queueCapacitiesByPartition":[`, `{"partitionName":"a"},`, 1 << 20},
		"partitions that are in use":  {queues + `{"queueName":"a","resources":{"resourceUsagesByPartition":[`, `{"partitionName":"a"},`, 1 << 20},
		"nothing":                     {``, ` `, 1 << 20},
		"text":                        {`<html>`, `x`, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			rest := &endless{piece: test.piece}
			_, err := Decode(io.MultiReader(strings.NewReader(test.begin), rest))
			want, detail := Excessive, ""
			if strings.Contains(name, "nothing") || strings.Contains(name, "text") {
				want = NotJSON
			} else if strings.HasSuffix(name, "s passed over") {
				detail = "nested more than 9000 deep"
			}
			if e, is := errors.AsType[*AnswerError](err); !is || e.Refusal != want || !strings.Contains(e.Detail, detail) {
				t.Errorf("the error is %v, want %s: %s", err, want, detail)
			}
			if rest.read > test.most {
				t.Errorf("%d bytes were read", rest.read)
			}
		})
	}
}

// The decoder does not buffer an answer, whatever its content is.
func TestDecodeHoldsNoMoreThanABuffer(t *testing.T) {
	const size, most = 32 << 20, 1 << 20
	const answer = `{"scheduler":{"schedulerInfo":{"queueName":"root"`
	for name, test := range map[string]struct{ begin, piece, end string }{
		"blanks before":               {"", " ", answer + "}}}"},
		"blanks within":               {answer, "\n", "}}}"},
		"blanks in what is skipped":   {`{"new":{"a":`, "\t ", "1}}"},
		"blanks behind":               {answer + "}}}", "\r\n", ""},
		"a word that is no JSON":      {answer + `,"new":`, "N", "}}}"},
		"small values":                {`{"new":[0`, ",1", "]}"},
		"an object in place of a key": {`{"scheduler":{{"a":[1`, ",1", "]}}}"},
		"a list in place of a key":    {`{"scheduler":{[1`, ",1", "]}}"},
		"keys of open objects":        {`{"new":`, `{"` + strings.Repeat("~", 1000) + `":`, ""},
	} {
		body := io.MultiReader(strings.NewReader(test.begin), io.LimitReader(&endless{piece: test.piece}, size), strings.NewReader(test.end))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decode(body)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > most {
			t.Errorf("%s: %d bytes were allocated, want at most %d (%v)", name, got, most, err)
		}
	}
}

// A root queue with an overlong name is an error; an error message of any length is not.
func TestDecodeBoundsNames(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	_, err := Decode(strings.NewReader(`{"scheduler":{"schedulerInfo":{"queueName":"` + long + `"}}}`))
	if e, is := errors.AsType[*AnswerError](err); !is || e.Refusal != Excessive {
		t.Errorf("the error is %v", err)
	}
	_, err = Decode(strings.NewReader(`{"RemoteException":{"message":"` + long + `"}}`))
	if e, is := errors.AsType[*AnswerError](err); !is || e.Refusal != RemoteException || len(e.Detail) > excerptSize {
		t.Errorf("the error is %v", err)
	}
	_, err = Decode(strings.NewReader("{\"scheduler\":{\"schedulerInfo\":{\"queueName\":\"\xff\"}}}"))
	if e, is := errors.AsType[*AnswerError](err); !is || e.Refusal != Malformed {
		t.Errorf("a name that is not UTF-8: the error is %v", err)
	}
	_, err = Decode(strings.NewReader("{\"scheduler\":{\"schedulerInfo\":{\"queueName\":\"\\u0061\xff\"}}}"))
	if e, is := errors.AsType[*AnswerError](err); !is || e.Refusal != Malformed {
		t.Errorf("one with an escape: the error is %v", err)
	}
}

// Queues may nest up to the limit, in the most verbose form of their lists. Deeper queues are left
// out.
func TestDecodeBoundsDepth(t *testing.T) {
	nested := func(levels int) string {
		const below = `,"queues":{"queue":[{"queueName":"q"`
		return `{"scheduler":{"schedulerInfo":{"queueName":"root"` + strings.Repeat(below, levels) + strings.Repeat(`}]}`, levels) + `}}}`
	}
	for levels, cut := range map[int]bool{maxDepth: false, maxDepth + 1: true, 2900: true} {
		s, err := Decode(strings.NewReader(nested(levels)))
		if err != nil || len(s.Entries) != maxDepth+1 {
			t.Fatalf("%d levels: %v", levels, err)
		}
		if last := s.Entries[maxDepth]; last.LeavesOnly != cut || strings.HasPrefix(s.Doubts(), "left out: queues below root.q.q.") != cut {
			t.Errorf("%d levels: leaves only %t; %s", levels, last.LeavesOnly, s.Doubts())
		}
	}
}

// A file saved by an editor may begin with a byte order mark.
func TestDecodePassesOverAByteOrderMark(t *testing.T) {
	s, err := Decode(strings.NewReader("\ufeff\r\n" + `{"scheduler":{"schedulerInfo":{"queueName":"root"}}}` + "\r\n"))
	if err != nil || len(s.Entries) != 1 {
		t.Errorf("%v, %v", s, err)
	}
}

// Callers can distinguish a read error from an error in the answer, at any byte.
func TestDecodeReturnsTheErrorOfItsReader(t *testing.T) {
	body := payloads(t, ".json")["knox/scheduler.json"]
	broken := errors.New("the connection is gone")
	for n := range len(body) + 1 {
		_, err := Decode(io.MultiReader(bytes.NewReader(body[:n]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) {
			t.Fatalf("after %d bytes the error is %v", n, err)
		}
		if _, is := errors.AsType[*AnswerError](err); is {
			t.Fatalf("after %d bytes the answer is to blame: %v", n, err)
		}
		_, err = Decode(bytes.NewReader(body[:n]))
		if n < len(bytes.TrimSpace(body)) {
			e, is := errors.AsType[*AnswerError](err)
			if !is || e.Refusal != Malformed && e.Refusal != NotJSON {
				t.Fatalf("cut to %d bytes the error is %v", n, err)
			}
			// the same text for every cut, because each new text is logged
			if got, want := e.Error(), "malformed: the answer ends early"; e.Refusal == Malformed && got != want {
				t.Fatalf("cut to %d bytes: %s, want %s", n, got, want)
			}
		}
	}
}
