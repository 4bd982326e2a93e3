package ledger_test

import (
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// bookkeeper is a placer that panics when so much memory is booked on a host.
type bookkeeper struct {
	*plainPlacer

	trap int64
}

func (b *bookkeeper) Book(slot ledger.Slot, available, booked resource.Vector) {
	if booked.Memory() == b.trap {
		panic("a trap")
	}
	b.plainPlacer.Book(slot, available, booked)
}

// A panic while a request is granted that waited has that request; once it is granted, none has it.
func TestAPanicInAGrantHasTheRequestThatWaited(t *testing.T) {
	for trap, blamed := range map[int64]bool{5: true, 0: false, -1: false} {
		p := &bookkeeper{newPlainPlacer(), -1}
		l := ledger.New(ledger.Config{}, p)
		memory := int64(8)
		_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(memory)})
		must(t, err)
		_, err = l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &memory}})
		must(t, err)
		holds, err := ask(l, start, "alice", memory)
		must(t, err)
		waits, err := ask(l, start, "bob", 5, func(c *ledger.AllocateCommand) { c.Wait, c.Async, c.ReservationTTL = time.Hour, true, time.Minute })
		must(t, err)
		release := func() {
			_, err := l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: holds.ID})
			must(t, err)
		}
		panics := func(f func()) {
			p.trap = trap
			defer func() {
				if recover() == nil {
					t.Errorf("%d: no panic", trap)
				}
			}()
			f()
		}
		switch trap {
		case 5:
			panics(release)
		case 0: // when it ends
			release()
			l.Changes()
			l.Durable(start, l.Revision())
			panics(func() { l.Advance(start.Add(2 * time.Minute)) })
		default:
			release()
		}
		if c := l.Culprit(); (c.Request.ID == waits.ID) != blamed || (c.Request.ID == 0) == blamed {
			t.Errorf("%d: to blame is %s; want %s: %t", trap, c.Request.ID, waits.ID, blamed)
		}
	}
}
