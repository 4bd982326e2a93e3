package yamlfile

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// byteOrderMark is the prefix that some editors write before UTF-8.
const byteOrderMark = "\ufeff"

// notText returns an error if the file is not UTF-8 text. The library would replace invalid bytes
// by U+FFFD, and so read another name than the written one.
func (d *Document) notText() *Error {
	if isUTF16(d.data) {
		return &Error{File: d.name, Line: 1, Column: 1, Reason: "UTF-16: want UTF-8"}
	}
	if nul := bytes.IndexByte(d.data, 0); nul >= 0 && utf8.Valid(d.data[:nul]) {
		return d.atOffset(nul, "a NUL byte: want text")
	}
	if utf8.Valid(d.data) {
		return nil
	}
	for at := 0; at < len(d.data); {
		r, size := utf8.DecodeRune(d.data[at:])
		if r == utf8.RuneError && size == 1 {
			return d.atOffset(at, "not UTF-8: want the file in UTF-8; if it is in Latin-1, `iconv -f latin1 -t utf-8` converts it")
		}
		at += size
	}
	return nil
}

// isUTF16 reports whether a file starts with the mark of UTF-16 or UTF-32, or has a zero byte next
// to its first character, as these encodings have without a mark.
func isUTF16(data []byte) bool {
	return bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) ||
		len(data) >= 2 && (data[0] == 0) != (data[1] == 0) || bytes.HasPrefix(data, []byte{0, 0, 0xfe, 0xff})
}

// atOffset returns an error that points to a byte.
func (d *Document) atOffset(at int, reason string) *Error {
	begin := bytes.LastIndexByte(d.data[:at], '\n') + 1
	position := token.Position{Line: bytes.Count(d.data[:begin], []byte("\n")) + 1, Column: utf8.RuneCount(d.data[begin:at]) + 1}
	return d.errorAt(&token.Token{Position: &position}, "", reason)
}

// noCharacter finds an escape that is no character, such as "\U00110000". The library reads U+FFFD
// there.
func (d *Document) noCharacter(tokens token.Tokens) *Error {
	for _, t := range tokens {
		if t.Type != token.DoubleQuoteType || !strings.ContainsRune(t.Value, utf8.RuneError) {
			continue
		}
		if file := strings.ToLower(string(d.data)); strings.ContainsRune(file, utf8.RuneError) || strings.Contains(file, "fffd") {
			return nil // possibly intended; tokens do not keep the original spelling
		}
		return d.errorAt(t, "", `an escape for which there is no character: want at most "\U0010FFFF"`)
	}
	return nil
}
