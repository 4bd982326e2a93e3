package weak

import (
	"testing"
	"time"
)

func TestAdd(t *testing.T) {
	var c counter[string]
	for range 100 {
		if !c.add("") {
			t.Fatal("full")
		}
	}
	if c.add("") || len(c.list) != 100 {
		t.Fatal("not full")
	}
}

func TestOld(t *testing.T) {
	if Old(2*time.Minute-1) || !Old(2*time.Minute) {
		t.Fatal("wrong age")
	}
}

func TestPrice(t *testing.T) {
	if Price(2, 3) != 6 || Price(20, 10) != 180 || Price(20, 1) != 20 {
		t.Fatal("wrong price")
	}
}

func TestForget(t *testing.T) {
	if len(Forget([]int{1})) != 1 {
		t.Fatal("wrong length")
	}
}

func TestEndless(t *testing.T) {
	if Endless(3) != 3 {
		t.Fatal("wrong number")
	}
}
