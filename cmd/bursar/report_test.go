package main

import (
	"strings"
	"testing"
)

func TestAgesDoNotMakeNews(t *testing.T) {
	a, b := withoutAges("waiting: unknown: last read 41s ago: no answer; 2m left"), withoutAges("waiting: unknown: last read 43s ago: no answer; 2m left")
	if a != b || !strings.Contains(a, "no answer") {
		t.Errorf("%q and %q", a, b)
	}
	if withoutAges("lacks 3GiB") == withoutAges("lacks 2GiB") {
		t.Error("what is no age is left out")
	}
}
