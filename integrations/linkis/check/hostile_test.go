package check

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// hostile is a server of MySQL's protocol that does not mean well. Its address is one of this
// machine that does not look like one.
type hostile struct {
	plugin string
	// cell is in every row; there is no last row. Empty: it asks for the password.
	cell string
	// asked says that the client has asked for the server's key, or has given the password.
	asked atomic.Bool
}

func (h *hostile) serve(t *testing.T) (properties Properties) {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go h.answer(conn)
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return Properties{urlSetting: "jdbc:mysql://0.0.0.0:" + port + "/linkis", userSetting: "reader", passSetting: "open-sesame"}
}

func packet(sequence byte, body string) []byte {
	n := len(body)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), sequence}, body...)
}

func receive(r *bufio.Reader) (body []byte, err error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	body = make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	_, err = io.ReadFull(r, body)
	return body, err
}

func text(s string) string {
	if len(s) < 251 {
		return string([]byte{byte(len(s))}) + s
	}
	return "\xfc" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(s)))) + s
}

func (h *hostile) answer(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	const ok = "\x00\x00\x00\x02\x00\x00\x00"
	greeting := "\x0a8.0.30\x00\x07\x00\x00\x00AAAAAAAA\x00\x0d\xa2\x21\x02\x00\x08\x00\x15" + strings.Repeat("\x00", 10) + "BBBBBBBBBBBB\x00" + h.plugin + "\x00"
	_, _ = conn.Write(packet(0, greeting))
	if _, err := receive(r); err != nil {
		return
	}
	if h.cell == "" {
		_, _ = conn.Write(packet(2, "\x01\x04")) // full authentication
		if more, err := receive(r); err == nil && (bytes.Equal(more, []byte{2}) || bytes.Contains(more, []byte("open-sesame"))) {
			h.asked.Store(true)
		}
		_, _ = conn.Write(packet(4, "\xff\x15\x04#28000no"))
		return
	}
	_, _ = conn.Write(packet(2, ok))
	for {
		query, err := receive(r)
		if err != nil {
			return
		}
		if !bytes.Contains(query, []byte("SELECT l.label_value, s.max_resource")) {
			_, _ = conn.Write(packet(1, ok))
			continue
		}
		column := "\x03def" + strings.Repeat("\x00", 3) + text("c") + text("c") + "\x0c\x21\x00\xe8\x03\x00\x00\xfd\x00\x00\x00\x00\x00"
		_, _ = conn.Write(packet(1, "\x03"))
		for i := range 3 {
			_, _ = conn.Write(packet(byte(2+i), column))
		}
		_, _ = conn.Write(packet(5, "\xfe\x00\x00\x02\x00"))
		for i := byte(6); ; i++ {
			if _, err := conn.Write(packet(i, text(h.cell)+text("")+text(""))); err != nil {
				return
			}
		}
	}
}

func TestAPasswordIsNotGivenToWhoeverAnswers(t *testing.T) {
	for _, parameters := range []string{"", "?sslMode=PREFERRED", "?useSSL=false&allowPublicKeyRetrieval=true", "?useSSL=true"} {
		h := &hostile{plugin: "caching_sha2_password"}
		p := h.serve(t)
		p[urlSetting] += parameters
		_, err := Open(t.Context(), p, "")
		if err == nil || !strings.Contains(err.Error(), "sslMode=VERIFY_IDENTITY") || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%q: %v: want an error that names sslMode=VERIFY_IDENTITY", parameters, err)
		}
		if h.asked.Load() {
			t.Errorf("%q: the server was asked for its key, or got the password", parameters)
		}
	}
}

func TestWhatIsToBeVerifiedIs(t *testing.T) {
	for _, parameters := range []string{"?sslMode=VERIFY_IDENTITY", "?useSSL=true&verifyServerCertificate=true", "?sslmode=verify-full"} {
		h := &hostile{plugin: "mysql_native_password", cell: "x"} // it has no TLS
		p := h.serve(t)
		p[urlSetting] += parameters
		if _, err := Open(t.Context(), p, ""); err == nil || !strings.Contains(err.Error(), "TLS") {
			t.Errorf("%q: %v: want an error about TLS", parameters, err)
		}
	}
	for parameters, want := range map[string]string{
		"?sslMode=REQUIRED":                           "sslMode=VERIFY_IDENTITY",
		"?useSSL=true&requireSSL=true":                "sslMode=VERIFY_IDENTITY",
		"?sslMode=SOMETIMES":                          `"sslMode=sometimes": want DISABLED`,
		"?useSSL=maybe":                               `"useSSL=maybe": want true or false`,
		"?trustCertificateKeyStoreUrl=file:/x":        `"trustCertificateKeyStoreUrl": want`,
		"?useSSL=true&enabledTLSProtocols=TLSv1.3":    `"enabledTLSProtocols": want`,
		"?disableSslHostnameVerification=true&user=x": `"disableSslHostnameVerification": want`,
	} {
		_, err := Open(t.Context(), Properties{urlSetting: "jdbc:mysql://192.0.2.1/linkis" + parameters}, "")
		if _, wrong := errors.AsType[*SettingError](err); !wrong || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v: want a setting's error with %s", parameters, err, want)
		}
	}
}

func rowsOf(t *testing.T, cell string, change func(*bounds)) error {
	t.Helper()
	h := &hostile{plugin: "mysql_native_password", cell: cell}
	d, err := Open(t.Context(), h.serve(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	change(d.bounds)
	begin := time.Now()
	_, _, err = d.Rows(t.Context())
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
	return err
}

func TestAnswersWithoutEndHaveOne(t *testing.T) {
	if err := rowsOf(t, strings.Repeat("y", 60000), func(*bounds) {}); err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("%v: want that it has more than 64 MiB", err)
	}
	if err := rowsOf(t, "y", func(b *bounds) { b.end = time.Now().Add(-time.Second) }); err == nil || !strings.Contains(err.Error(), "within 30s") {
		t.Errorf("%v: want that it took more than 30s", err)
	}
}

func TestTextsOfAReportAreCut(t *testing.T) {
	f := NewReport([]Finding{{Area: "ecm", Subject: strings.Repeat("ä", 5000), Now: "now"}}).Findings[0]
	if len(f.Subject) > 510 || !strings.HasSuffix(f.Subject, "ä…") || f.Now != "now" {
		t.Errorf("%d bytes: %q", len(f.Subject), f.Subject)
	}
}
