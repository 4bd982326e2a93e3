package output

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkThroughput reads a file of 64 MiB through a helper, and reports how that compares with
// io.Copy of the same file through a pipe, and to nowhere.
func BenchmarkThroughput(b *testing.B) {
	const size = 64 << 20
	h := newHost(b)
	folder := h.folder("logs")
	path := filepath.Join(folder, "stdout")
	h.write(path, string(make([]byte, size)))
	request := h.request(folder)
	through := func() {
		r, err := h.opener.Open(b.Context(), request)
		if err != nil {
			b.Fatal(err)
		}
		defer r.Close()
		var got int64
		for {
			part, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			n, _ := io.Discard.Write(part.Data)
			got += int64(n)
		}
		if got != size {
			b.Fatalf("%d bytes", got)
		}
	}
	copied := func(b *testing.B, to io.Writer) {
		file, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		defer file.Close()
		if n, err := io.Copy(to, struct{ io.Reader }{file}); err != nil || n != size {
			b.Fatal(n, err)
		}
	}
	b.Run("helper", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			through()
		}
	})
	b.Run("copy through a pipe", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			from, to, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, struct{ io.Reader }{from})
				done <- err
			}()
			copied(b, struct{ io.Writer }{to})
			if err := errors.Join(to.Close(), <-done, from.Close()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("copy to nowhere", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			copied(b, struct{ io.Writer }{io.Discard})
		}
	})
}
