package coordinator

import (
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// http2Frame is a frame of HTTP/2.
func http2Frame(kind, flags byte, stream uint32, payload []byte) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))[1:]
	frame = binary.BigEndian.AppendUint32(append(frame, kind, flags), stream)
	return append(frame, payload...)
}

// Requests without an identity whose answers nobody takes are bounded by the user whose connections
// they come over: what is beyond ends its connection. Others are answered.
func TestAnswersWithoutAnIdentityThatNobodyTakesAreBounded(t *testing.T) {
	for _, path := range []string{"/metrics", "/healthz"} {
		t.Run(path, func(t *testing.T) {
			f := start(t, Config{}, nil)
			before := runtime.NumGoroutine()
			const connections, streams = 2, 3000
			header := append([]byte{0x82, 0x86, 0x04, byte(len(path))}, path...)
			header = append(append(header, 0x01, 9), "127.0.0.1"...)
			request := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), http2Frame(4, 0, 0, []byte{0, 4, 0, 0, 0, 0})...) // no window
			for i := range uint32(streams) {
				request = append(request, http2Frame(1, 5, 2*i+1, header)...)
			}
			var ended atomic.Int64
			var all sync.WaitGroup
			for range connections {
				conn, err := net.Dial("tcp", f.server.Address())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				all.Go(func() {
					_ = conn.SetDeadline(time.Now().Add(namelessTime / 2))
					_, _ = conn.Write(request)
					for buffer := make([]byte, 64<<10); ; {
						if _, err := conn.Read(buffer); err != nil {
							if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
								ended.Add(1)
							}
							return
						}
					}
				})
			}
			all.Wait()
			if ended.Load() == 0 {
				t.Errorf("no connection was ended")
			}
			eventually(t, "few answers are under way", func() bool { return runtime.NumGoroutine()-before < 2*maxNameless })
			if code, _ := f.fetch("GET", "/healthz", ""); code != 200 {
				t.Errorf("somebody else's probe: %d", code)
			}
		})
	}
}

// Many who ask at the same time cost as little as few, and each is told what is so after they have asked.
func TestReadingIsShared(t *testing.T) {
	var value, runs, asked atomic.Int64
	started, release := make(chan struct{}, 100), make(chan struct{})
	look := shareReading(func() (int64, error) {
		runs.Add(1)
		started <- struct{}{}
		got := value.Load()
		<-release
		return got, nil
	})
	var all sync.WaitGroup
	all.Go(func() { _, _ = look() })
	<-started
	value.Store(1)
	for range 50 {
		all.Go(func() {
			asked.Add(1)
			if got, err := look(); err != nil || got != 1 {
				t.Errorf("%d, %v: want what is so since", got, err)
			}
		})
	}
	eventually(t, "all have asked", func() bool { return asked.Load() == 50 })
	close(release)
	all.Wait()
	if got := runs.Load(); got > 10 {
		t.Errorf("it was read %d times for 51 who asked", got)
	}
}
