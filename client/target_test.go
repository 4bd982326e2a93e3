package client

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestTargetNamesASocketOrAnAddress(t *testing.T) {
	for text, want := range map[string]target{
		"/run/bursar/agent.sock":        {baseURL: "http://localhost", socket: "/run/bursar/agent.sock"},
		"./agent.sock":                  {baseURL: "http://localhost", socket: "./agent.sock"},
		"unix:/run/bursar/agent.sock":   {baseURL: "http://localhost", socket: "/run/bursar/agent.sock"},
		"unix:///run/bursar/agent.sock": {baseURL: "http://localhost", socket: "/run/bursar/agent.sock"},
		"unix:agent.sock":               {baseURL: "http://localhost", socket: "agent.sock"},
		"127.0.0.1:7070":                {baseURL: "http://127.0.0.1:7070"},
		"[::1]:7070":                    {baseURL: "http://[::1]:7070"},
		"coordinator-1:7070":            {baseURL: "http://coordinator-1:7070"},
		"http://127.0.0.1:7070/":        {baseURL: "http://127.0.0.1:7070", hasScheme: true},
		"https://bursar.example.com":    {baseURL: "https://bursar.example.com", hasScheme: true},
		"https://example.com/bursar/":   {baseURL: "https://example.com/bursar", hasScheme: true},
	} {
		got, err := parseTarget(text, false)
		if err != nil || got != want {
			t.Errorf("parseTarget(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestTargetRefusesWhatNamesNoServer(t *testing.T) {
	for _, text := range []string{
		"", "unix:", "localhost", ":7070", "ftp://example.com:21", "http://example.com", "http://a:1?x=y", "http://u@a:1", "a b:7070",
		"http://127.0.0.1:port", "127.0.0.1:99999", "127.0.0.1:0",
	} {
		got, err := parseTarget(text, false)
		var targetErr *TargetError
		if !errors.As(err, &targetErr) || targetErr.Target != text {
			t.Errorf("parseTarget(%q) = %+v, %v; want a TargetError that quotes it", text, got, err)
		}
	}
}

func TestAPathIsThatOfASocketOrOfNothing(t *testing.T) {
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "file"), filepath.Join(dir, "s")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for server, refused := range map[string]bool{dir: true, file: true, "unix:" + file: true, socket: false, "unix:" + socket: false, filepath.Join(dir, "none"): false} {
		c, err := New(server)
		if _, wrong := errors.AsType[*TargetError](err); wrong != refused || (err != nil) != refused {
			t.Errorf("New(%q): %v: want a TargetError: %t", server, err, refused)
		}
		if err == nil {
			c.Close()
		}
	}
}

func FuzzTarget(f *testing.F) {
	f.Add("127.0.0.1:7070")
	f.Add("unix:/run/bursar/agent.sock")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTarget(text, false)
		if (err == nil) == (got == target{}) {
			t.Errorf("parseTarget(%q) = %+v, %v", text, got, err)
		}
	})
}
