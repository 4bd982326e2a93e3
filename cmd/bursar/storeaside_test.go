package main

import "testing"

// A key is accepted as the log writes it, after the shell has removed the quotes.
func TestAKeyIsTakenAsTheLogWritesIt(t *testing.T) {
	for key, want := range map[string]string{`a\x00b`: "a\x00b", `a"b\xff`: "a\"b\xff", `\u200b`: "\u200b", `a\\b`: `a\b`} {
		if got, quoted := unquoted(key); !quoted || got != want {
			t.Errorf("%s is %q, %t; want %q", key, got, quoted, want)
		}
	}
	for _, key := range []string{"vm-17", "user=alice", `a\`, `a\q`} {
		if got, quoted := unquoted(key); quoted {
			t.Errorf("%s is %q", key, got)
		}
	}
}
