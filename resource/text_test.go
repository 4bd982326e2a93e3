package resource

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "0B": 0, "1048576": 1 << 20, "1048576B": 1 << 20,
		"4GiB": 4 << 30, "4Gi": 4 << 30, "512MiB": 512 << 20, "64Ki": 64 << 10, "2TiB": 2 << 40, "1PiB": 1 << 50,
		"1.5GiB": 3 << 29, "0.5Ki": 512, "1.50GiB": 3 << 29, "007KiB": 7 << 10,
		"4G": 4e9, "4GB": 4e9, "500M": 500e6, "500MB": 500e6, "1K": 1000, "1k": 1000, "1kB": 1000, "1KB": 1000, "3T": 3e12, "2P": 2e15, "2.5G": 25e8,
		"0.1GiB":           107374183, // 107374182.4: never less than the text
		"1.5":              2,
		"9007199254740991": MaxQuantity,
		// The maximum number of digits.
		"0000000000000000000000000000000000000001": 1,
	} {
		if got, err := ParseMemory(text); err != nil || got != want {
			t.Errorf("ParseMemory(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "B", "GiB", "4g", "4m", "4gib", "4GIB", "4 GiB", " 4GiB", "4GiB ", "-1", "+1", "1e3", ".5", "1.", "1..2", "1.2.3", "0x10", "1_000",
		"4GiBiB", "4KKi", "4BB", "4KBi", "8PiB", "9007199254740992", "99999999999999999999GiB", "four", "４GiB", "1,5GiB", "NaN", "Inf", "4\x00",
		"00000000000000000000000000000000000000001",
	} {
		_, err := ParseMemory(text)
		checkField(t, err, Memory)
	}
}

func TestFormatMemory(t *testing.T) {
	for want, bytes := range map[string]int64{
		"0B": 0, "1B": 1, "1023B": 1023, "1KiB": 1 << 10, "1025B": 1025, "4GiB": 4 << 30, "1.5GiB": 3 << 29, "512MiB": 512 << 20, "1152GiB": 9 << 37,
		"4G": 4e9, "2.5G": 25e8, "1000KiB": 1000 << 10, "123456789B": 123456789, "9007199254740991B": MaxQuantity, "-12B": -12,
		// As short as 10112MiB: then the larger unit.
		"9.875GiB": 79 << 27,
	} {
		if got := FormatMemory(bytes); got != want {
			t.Errorf("FormatMemory(%d) = %q, want %q", bytes, got, want)
		}
	}
}

func TestApproximateMemory(t *testing.T) {
	for want, bytes := range map[string]int64{
		"0B": 0, "1023B": 1023, "1KiB": 1024, "117.7MiB": 123456789, "4GiB": 4 << 30, "1.5GiB": 3 << 29, "8PiB": MaxQuantity, "-1B": -1,
		// A sixth of a byte below 1023.95MiB.
		"1023.9MiB": 1073689395,
	} {
		if got := ApproximateMemory(bytes); got != want {
			t.Errorf("ApproximateMemory(%d) = %q, want %q", bytes, got, want)
		}
	}
}

func TestParseCPU(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "2": 2000, "1.5": 1500, "0.5": 500, "500m": 500, "1500m": 1500, "0.0001": 1, "0.5m": 1, "0.001": 1, "9007199254740m": 9007199254740,
	} {
		if got, err := ParseCPU(text); err != nil || got != want {
			t.Errorf("ParseCPU(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "m", "-1", "1M", "1c", "2 ", "1e3", "9007199254741", "1.5.5", "mm", "1mm", "two"} {
		_, err := ParseCPU(text)
		checkField(t, err, CPU)
	}
	for want, millis := range map[string]int64{"0": 0, "2": 2000, "12": 12000, "500m": 500, "1500m": 1500, "1m": 1, "-1m": -1} {
		if got := FormatCPU(millis); got != want {
			t.Errorf("FormatCPU(%d) = %q, want %q", millis, got, want)
		}
	}
}

func TestTextReadsBackExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := vectors().Draw(t, "v")
		if back := must(t, ParseVector, v.Text()); !back.Equal(v) {
			t.Fatalf("%v became %v by %v", v, back, v.Text())
		}
	})
	rapid.Check(t, func(t *rapid.T) { // round sizes, which are written in larger units
		bytes := rapid.Int64Range(0, 4096).Draw(t, "n") << rapid.IntRange(0, 40).Draw(t, "shift")
		if back := must(t, ParseMemory, FormatMemory(bytes)); back != bytes {
			t.Fatalf("%d became %d by %s", bytes, back, FormatMemory(bytes))
		}
	})
}

// The memory and cpu of masters are written like memory and cpu.
func TestParseWhatIsOfApplications(t *testing.T) {
	got := must(t, ParseVector, map[string]string{"am-memory": "1.5GiB", "am-cpu": "500m", "applications": "2"})
	if want := (Vector{}).With(AMMemory, 3<<29).With(AMCPU, 500).With(Applications, 2); !got.Equal(want) {
		t.Errorf("%v; want %v", got, want)
	}
	if text := got.String(); text != "am-cpu=500m,am-memory=1.5GiB,applications=2" {
		t.Errorf("written as %s", text)
	}
	for _, name := range []string{AMMemory, AMCPU, Applications} {
		_, err := ParseVector(map[string]string{name: "much"})
		if wrong, is := errors.AsType[*FieldError](err); !is || wrong.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	// They do not count toward the sixteen.
	v := got
	for i := range MaxCustom {
		v = v.With("c"+string(rune('a'+i)), 1)
	}
	if err := v.Validate(); err != nil {
		t.Error(err)
	}
	if err := v.With("one-more", 1).Validate(); err == nil {
		t.Error("seventeen others are accepted")
	}
}

func TestParseVector(t *testing.T) {
	got := must(t, ParseVector, map[string]string{"memory": "4GiB", "cpu": "500m", "instances": "2", "gpu": "1"})
	if want := (Vector{}.WithMemory(4<<30).WithCPU(500).WithInstances(2).With("gpu", 1)); !got.Equal(want) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
	if none := must(t, ParseVector, nil); !none.IsUnset() {
		t.Errorf("nothing is %v", none)
	}
	for _, test := range []struct {
		text  map[string]string
		field string
	}{
		{map[string]string{"memory": "4GiB", "cpu": "x"}, CPU},
		{map[string]string{"memory": "4"}, ""},
		{map[string]string{"memory": "-4"}, Memory},
		{map[string]string{"instances": "1.5"}, Instances},
		{map[string]string{"instances": "1K"}, Instances},
		{map[string]string{"gpu": "-1"}, "gpu"},
		{map[string]string{"gpu": ""}, "gpu"},
		{map[string]string{"g pu": "1"}, "custom"},
		{map[string]string{"zz": "x", "aa": "x"}, "aa"}, // always the first
	} {
		_, err := ParseVector(test.text)
		checkField(t, err, test.field)
	}
	many := map[string]string{}
	for i := range MaxCustom + 1 {
		many[string(rune('a'+i))] = "1"
	}
	_, err := ParseVector(many)
	checkField(t, err, "custom")
}

func TestString(t *testing.T) {
	v := Vector{}.WithMemory(4<<30).WithCPU(500).With("gpu", 1)
	at := Address{Kind: "yarn", Cluster: "default", Path: "root.a", Partition: "ssd"}
	for want, s := range map[string]interface{ String() string }{
		"none":                          Resource{},
		"memory=4GiB,cpu=500m,gpu=1":    v,
		"instances=0":                   Vector{}.WithInstances(0),
		"yarn:default:root.a@ssd":       at,
		"yarn:default:root.a@ssd,none":  External{Address: at},
		"yarn:default:root.a@ssd,cpu=2": Resource{}.WithPart(at, Vector{}.WithCPU(2000)),
		"cpu=1 yarn:default:root.a@ssd,memory=4GiB,cpu=500m,gpu=1": Resource{Vector: Vector{}.WithCPU(1000)}.WithPart(at, v),
	} {
		if got := s.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzParseMemory(f *testing.F) {
	for _, seed := range []string{"4GiB", "1.5Mi", "500MB", "0.1k", "9007199254740991", "-1", "4g", "1.", "PiB"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkParsed(t, text, ParseMemory, FormatMemory)
	})
}

func FuzzParseCPU(f *testing.F) {
	for _, seed := range []string{"2", "500m", "1.5", "0.0001", "9007199254740.991", "m", "-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkParsed(t, text, ParseCPU, FormatCPU)
	})
}

// checkParsed fails unless the text is rejected with a complete error, or parsed as a quantity that
// survives formatting and parsing.
func checkParsed(t *testing.T, text string, parse func(string) (int64, error), format func(int64) string) {
	t.Helper()
	quantity, err := parse(text)
	if err != nil {
		var wrong *FieldError
		if !errors.As(err, &wrong) || wrong.Value != text {
			t.Fatalf("%q: %v", text, err)
		}
		return
	}
	if quantity < 0 || quantity > MaxQuantity {
		t.Fatalf("%q is %d", text, quantity)
	}
	if again, err := parse(format(quantity)); err != nil || again != quantity {
		t.Fatalf("%q is %d, %q is %d, %v", text, quantity, format(quantity), again, err)
	}
}

func FuzzParseVector(f *testing.F) {
	f.Add("memory", "4GiB", "gpu", "1")
	f.Add("cpu", "500m", "instances", "x")
	f.Add("yarn.io/gpu", "0", "", "1")
	f.Fuzz(func(t *testing.T, name1, text1, name2, text2 string) {
		v, err := ParseVector(map[string]string{name1: text1, name2: text2})
		if err != nil {
			var wrong *FieldError
			if !errors.As(err, &wrong) || !v.IsUnset() {
				t.Fatalf("%v, %v", v, err)
			}
			return
		}
		if err := v.Validate(); err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		if again, err := ParseVector(v.Text()); err != nil || !again.Equal(v) {
			t.Fatalf("%v became %v, %v", v, again, err)
		}
	})
}

// A misspelled dimension is parsed as a custom one: the error names the likely dimension.
func TestAMisspelledDimensionIsSaid(t *testing.T) {
	for dimension, want := range map[string]string{
		"memroy": "memory", "memry": "memory", "Memory": "memory", "mem0ry": "memory", "cpus": "cpu", "cp": "cpu", "Cpu": "cpu",
		"instance": "instances", "instnaces": "instances", "gpu": "", "disk": "", "fpga": "", "licenses": "",
	} {
		_, err := ParseQuantity(dimension, "3GiB")
		if err == nil {
			t.Errorf("%s was read", dimension)
			continue
		}
		_, said, _ := strings.Cut(err.Error(), "; did you mean ")
		if said = strings.TrimSuffix(said, "?"); said != want {
			t.Errorf("%s: %v, want %q", dimension, err, want)
		}
	}
}

func TestSizeThatWasMeantIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"4g": "4GiB", "4gb": "4GiB", "4gib": "4GiB", "4GIB": "4GiB", "500m": "500MiB", "1.5t": "1.5TiB", "64kib": "64KiB",
		"g": "", "4 g": "", "4x": "", "4bg": "", "-4g": "", "b": "", "4b": "", "4i": "", "": "",
	} {
		_, err := ParseMemory(text)
		if got := misspelledSize(text); got != want || err == nil || strings.HasSuffix(err.Error(), "; did you mean "+want+"?") != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}
