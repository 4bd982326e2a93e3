package keeper

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The use of a process is on a line of its own, which an agent of an older version passes over.
func TestUseIsALineBeforeTheRecord(t *testing.T) {
	code := int32(0)
	record, err := Encode(Record{Exit: Exit{Code: &code}, Time: time.Unix(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	use := Use{ProcessBytes: 400 << 20, CPUMicros: 1_500_000}
	before, err := Encode(useLine{&use})
	if err != nil {
		t.Fatal(err)
	}
	f := func(name string, content []byte, want Use) {
		t.Helper()
		got, err := DecodeRecord(content)
		if err != nil || got.Exit.Code == nil || got.Use != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	f("both", append(bytes.Clone(before), record...), use)
	f("of an older keeper", record, Use{})
	f("negative", append([]byte(`{"use":{"process_bytes":-1}}`+"\n"), record...), Use{})
	f("more than there is", append([]byte(`{"use":{"process_bytes":9223372036854775807}}`+"\n"), record...), Use{})
	f("something else before", append([]byte("text\n"), record...), Use{})
	var old Record
	if decode(bytes.TrimSpace(before), &old) == nil && old.valid() {
		t.Error("an older agent takes the line for a record")
	}
}

// A mark that is not above that of the keeper may be the keeper's own.
func TestAMarkBelowTheKeepersSaysNothing(t *testing.T) {
	used := unix.Rusage{Maxrss: 5 << 10, Utime: unix.Timeval{Sec: 1}, Stime: unix.Timeval{Usec: 500}}
	if got, want := useOf(&used, 4<<20), (Use{ProcessBytes: 5 << 20, CPUMicros: 1_000_500}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := useOf(&used, 5<<20); got.ProcessBytes != 0 || got.CPUTime() != 1000500*time.Microsecond {
		t.Errorf("%+v", got)
	}
	if ownRSS() == 0 {
		t.Error("this process has no mark")
	}
}
