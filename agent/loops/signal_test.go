package loops

import "testing"

func TestASignalWakesAllThatWaitForItsNextTime(t *testing.T) {
	var s Signal
	s.Happened() // nobody waits
	first, also := s.Next(), s.Next()
	select {
	case <-first:
		t.Fatal("it is taken for one that comes after somebody waits")
	default:
	}
	s.Happened()
	<-first
	<-also
	select {
	case <-s.Next():
		t.Error("who waits after it is woken by it")
	default:
	}
}
