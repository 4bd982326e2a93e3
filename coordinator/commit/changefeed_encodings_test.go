package commit

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
)

func TestAnEventIsEncodedOnceForAllWhoSendIt(t *testing.T) {
	f := NewChangeFeed(4, 1<<20)
	f.reset(1)
	f.Publish(&ledger.Changes{Revision: 2, Transitions: []ledger.Allocation{{Revision: 2}}})
	e := f.ring[f.first%4]
	forms := []Form{{Codec: "proto"}, {Codec: "json"}, {Codec: "proto", Whole: true}, {Codec: "proto", Message: 1}}
	encoded := make([]atomic.Int64, len(forms))
	var senders, ask sync.WaitGroup
	ask.Add(50)
	for range 50 {
		senders.Go(func() {
			ask.Done()
			for i := range forms {
				text, err := e.Encoded(forms[i], func() ([]byte, error) {
					ask.Wait() // all ask meanwhile
					encoded[i].Add(1)
					return []byte{byte(i)}, nil
				})
				if err != nil || !bytes.Equal(text, []byte{byte(i)}) {
					t.Errorf("form %d is %v, %v", i, text, err)
				}
			}
		})
	}
	senders.Wait()
	for i := range forms {
		if n := encoded[i].Load(); n != 1 {
			t.Errorf("form %d was encoded %d times", i, n)
		}
	}
	wrong := errors.New("not this time")
	if _, err := e.Encoded(Form{Codec: "other"}, func() ([]byte, error) { return nil, wrong }); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
	if text, err := e.Encoded(Form{Codec: "other"}, func() ([]byte, error) { return []byte("x"), nil }); err != nil || string(text) != "x" {
		t.Errorf("after an error: %q, %v", text, err)
	}
}

// Encodings count in the size of a feed, the oldest go first, and all counted encodings exist.
func TestEncodingsAreBoundedWithTheFeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const ring, most = 16, 40 << 10
		f := NewChangeFeed(ring, most)
		f.reset(1)
		revision := uint64(1)
		var gone []*Event // some of them still held
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "what") == 0 || len(gone) == 0 {
				revision++
				reason := make([]byte, rapid.SampledFrom([]int{0, 100, 4 << 10, 50 << 10}).Draw(t, "row"))
				f.Publish(&ledger.Changes{Revision: revision, Transitions: []ledger.Allocation{{Revision: revision, Reason: string(reason)}}})
				gone = append(gone, f.ring[(f.next-1)%ring])
			} else {
				e := rapid.SampledFrom(gone).Draw(t, "event")
				text := make([]byte, rapid.SampledFrom([]int{1, 500, 3 << 10, 60 << 10}).Draw(t, "text"))
				form := Form{Codec: rapid.SampledFrom([]string{"proto", "json"}).Draw(t, "codec")}
				if _, err := e.Encoded(form, func() ([]byte, error) { return text, nil }); err != nil {
					t.Fatal(err)
				}
			}
			total, encoded := 0, 0
			for n := f.first; n < f.next; n++ {
				e := f.ring[n%ring]
				total += e.bytes
				if kept := e.encodings.Load(); kept != nil {
					if n < f.bare {
						t.Fatalf("number %d has encodings, those before %d must not", n, f.bare)
					}
					for i := range *kept {
						encoded += encodingSize(&(*kept)[i])
					}
				}
			}
			if total+encoded != f.bytes || encoded != f.encoded {
				t.Fatalf("%d and %d bytes of encodings are held, and it counts %d and %d", total, encoded, f.bytes-f.encoded, f.encoded)
			}
			if encoded > most/encodedPart || f.bytes > most && f.next-f.first > 1 {
				t.Fatalf("it holds %d bytes, %d of them of encodings, in %d events", f.bytes, encoded, f.next-f.first)
			}
			for _, e := range gone {
				if e.serial < f.first && e.encodings.Load() != nil {
					t.Fatalf("number %d has gone and has encodings", e.serial)
				}
			}
		}
	})
}
